import { type ReactNode, useEffect } from "react";
import "./Page.css";

interface Props {
  title: string;
  /** Before the title, like a link to the list that the thing is in. */
  above?: ReactNode;
  /** Facts beside the title. */
  facts?: ReactNode;
  /** Buttons at the right. */
  actions?: ReactNode;
  children: ReactNode;
}

/** A page's heading and body. Its title is the document's. */
export function Page({ title, above, facts, actions, children }: Props) {
  useEffect(() => {
    document.title = `${title} · Holdfast`;
  }, [title]);
  return (
    <>
      <header className="page-head">
        {above}
        <h1>{title}</h1>
        {facts ? <div className="page-facts">{facts}</div> : null}
        {actions ? <div className="page-actions">{actions}</div> : null}
      </header>
      {children}
    </>
  );
}
