/** In the place of react-style-singleton: the same interface over a constructed style sheet, which the policy permits. */
import { useEffect } from "react";

export function stylesheetSingleton() {
  let users = 0;
  const sheet = new CSSStyleSheet();
  return {
    add(css: string) {
      if (users++ === 0) {
        sheet.replaceSync(css);
        document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
      }
    },
    remove() {
      if (--users === 0) document.adoptedStyleSheets = document.adoptedStyleSheets.filter((each) => each !== sheet);
    },
  };
}

export function styleHookSingleton() {
  const shared = stylesheetSingleton();
  return (css: string, isDynamic?: boolean) => {
    // biome-ignore lint/correctness/useExhaustiveDependencies: the original's contract; other styles count only if they may change
    useEffect(() => {
      shared.add(css);
      return () => shared.remove();
    }, [css && isDynamic]);
  };
}

export function styleSingleton() {
  const useStyle = styleHookSingleton();
  return ({ styles, dynamic }: { styles: string; dynamic?: boolean }) => {
    useStyle(styles, dynamic);
    return null;
  };
}
