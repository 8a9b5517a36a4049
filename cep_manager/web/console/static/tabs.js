// Tabs, by mouse and by keyboard: arrow keys, Home and End move between them.

/** Makes tabs of the buttons in `list` (role tablist); `opened(id)` is called with the panel's id when one is opened. */
export function makeTabs(list, opened) {
  const tabs = [...list.querySelectorAll('[role="tab"]')];
  const open = (tab, focus) => {
    for (const other of tabs) {
      const chosen = other === tab;
      other.setAttribute("aria-selected", String(chosen));
      other.tabIndex = chosen ? 0 : -1;
      document.getElementById(other.getAttribute("aria-controls")).hidden = !chosen;
    }
    if (focus) {
      tab.focus();
    }
    opened(tab.getAttribute("aria-controls"));
  };
  tabs.forEach((tab, at) => {
    tab.addEventListener("click", () => open(tab, false));
    tab.addEventListener("keydown", (event) => {
      const next = { ArrowRight: at + 1, ArrowLeft: at - 1 + tabs.length, Home: 0, End: tabs.length - 1 }[event.key];
      if (next !== undefined) {
        event.preventDefault();
        open(tabs[next % tabs.length], true);
      }
    });
  });
}
