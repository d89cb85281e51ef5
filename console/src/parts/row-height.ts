import { measureElement } from "@tanstack/react-virtual";

/** The height of a row of a virtual list, which is its estimate while the list is hidden. A row of no height would leave the
 * list without height, and so without rows, when it is shown again. */
export const rowHeight: typeof measureElement = (element, entry, list) =>
  measureElement(element, entry, list) || list.options.estimateSize(list.indexFromElement(element));
