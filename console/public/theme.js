// Before the first paint, so that a page never flashes in the other theme. A file, since the policy forbids inline scripts.
try {
  const chosen = localStorage.getItem("holdfast.theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // Storage may be off: the system's theme applies.
}
