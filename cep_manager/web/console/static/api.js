// Opens the call or form that the page's address names.

function openNamed() {
  const named = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (named instanceof HTMLDetailsElement) {
    named.open = true;
    named.scrollIntoView();
  }
}

window.addEventListener("hashchange", openNamed);
openNamed();
