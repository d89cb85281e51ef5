// An identity provider for tests: the certified oidc-provider, with two people and a client. It prints its address.
import { createServer } from "node:http";
import Provider from "oidc-provider";

const PEOPLE = JSON.parse(process.env.PEOPLE);
const CLIENT = JSON.parse(process.env.CLIENT);

const server = createServer((request, response) => callback(request, response));
let callback;
server.listen(0, "127.0.0.1", () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients: [CLIENT],
    claims: { openid: ["sub"], profile: ["name", "email", "email_verified", "tenant", "roles", "teams"] },
    conformIdTokenClaims: false, // claims stand in the ID token, as most providers have them
    cookies: { keys: ["a key of the tests"] },
    features: { devInteractions: { enabled: true }, rpInitiatedLogout: { enabled: true } },
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, ...PEOPLE[id] }) }),
    pkce: { required: () => true },
    ttl: { AccessToken: 60, AuthorizationCode: 60, IdToken: 300, Grant: 300, Interaction: 300, Session: 300 },
  });
  callback = provider.callback();
  console.log(`issuer ${issuer}`);
});
process.stdin.resume().on("end", () => process.exit(0)); // with its parent
