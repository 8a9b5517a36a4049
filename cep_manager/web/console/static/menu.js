// Puts menus (elements with `popover` and class `menu`) beside the buttons that open them.

const GAP = 4;

document.addEventListener("toggle", (event) => {
  const menu = event.target;
  if (event.newState !== "open" || !menu.matches(".menu[popover]")) {
    return;
  }
  const button = document.querySelector(`[popovertarget="${CSS.escape(menu.id)}"]`).getBoundingClientRect();
  const room = { width: document.documentElement.clientWidth, height: document.documentElement.clientHeight };
  const below = button.bottom + GAP + menu.offsetHeight <= room.height;
  menu.style.left = `${Math.max(GAP, Math.min(button.right, room.width) - menu.offsetWidth)}px`;
  menu.style.top = `${below ? button.bottom + GAP : Math.max(GAP, button.top - GAP - menu.offsetHeight)}px`;
}, { capture: true });

// A menu is positioned at its button, so it closes when the button moves.
addEventListener("scroll", () => document.querySelector(".menu:popover-open")?.hidePopover(), { passive: true });
