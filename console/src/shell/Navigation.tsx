import { NavLink } from "react-router";
import { useCaller } from "@/api/caller";
import { GROUPS, PAGES } from "@/pages";
import { Keyboard } from "@/shell/Keyboard";
import { Preferences } from "@/shell/Preferences";
import { SignOut } from "@/shell/SignOut";
import { WAITING } from "@/shell/Waiting";

export function Navigation() {
  const caller = useCaller();
  const isShown = (needs: string | undefined) => !needs || !caller || caller.may.some((grant) => grant === needs);
  return (
    <nav id="navigation" className="navigation" aria-label="Pages">
      <div className="brand">
        <i />
        Holdfast
      </div>
      {GROUPS.map((group) => {
        const pages = PAGES.filter((page) => page.group === group && isShown(page.needs));
        if (pages.length === 0) return null;
        return (
          <div key={group}>
            {group === "Work" ? null : <div className="group">{group}</div>}
            <ul>
              {pages.map((page) => {
                const Waiting = caller ? WAITING[page.path] : undefined;
                return (
                  <li key={page.path}>
                    <NavLink to={page.path}>
                      {page.title}
                      {Waiting ? <Waiting /> : null}
                    </NavLink>
                  </li>
                );
              })}
            </ul>
          </div>
        );
      })}
      <div className="foot">
        {caller ? (
          <div>
            {[caller.tenant ?? "all tenants", caller.name].filter(Boolean).join(" · ")}
            <br />
            <span className="line">
              {caller.may.join(", ")}
              <SignOut />
            </span>
          </div>
        ) : null}
        <Keyboard />
        <Preferences />
      </div>
    </nav>
  );
}
