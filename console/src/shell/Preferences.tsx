import { setTheme, setZone, type Theme, usePreferences, type Zone } from "@/parts/preferences";

/** The theme, and the zone of every time in lists, axes and forms. */
export function Preferences() {
  const { theme, zone } = usePreferences();
  return (
    <div className="line">
      <select aria-label="Theme" className="field" value={theme} onChange={(e) => setTheme(e.target.value as Theme)}>
        <option value="system">System theme</option>
        <option value="light">Light</option>
        <option value="dark">Dark</option>
      </select>
      <select aria-label="Time zone" className="field" value={zone} onChange={(e) => setZone(e.target.value as Zone)}>
        <option value="local">Local time</option>
        <option value="utc">UTC</option>
      </select>
    </div>
  );
}
