/** An open tab after an upgrade asks for files that no longer exist. It loads the page again, at most twice. */
const KEY = "holdfast.reloads";
const MOST = 2;

export async function withFreshFiles<T>(load: () => Promise<T>): Promise<T> {
  try {
    const loaded = await load();
    sessionStorage.removeItem(KEY);
    return loaded;
  } catch (error) {
    const reloads = Number(sessionStorage.getItem(KEY) ?? 0);
    if (reloads >= MOST || !(error instanceof TypeError)) throw error;
    sessionStorage.setItem(KEY, String(reloads + 1));
    location.reload();
    return new Promise(() => {});
  }
}
