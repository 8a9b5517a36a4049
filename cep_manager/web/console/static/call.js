// Sends requests to the manager as the page's user: changes carry the CSRF token of the page.

const CSRF_HEADER = "X-CSRFToken";
export const NOT_LOGGED_IN = 401;
const UNCHANGING = ["GET", "HEAD", "OPTIONS"];

/** Like `fetch`, for addresses of the manager itself. Shows a notice on the page when the user is no longer logged in. */
export async function call(address, options = {}) {
  const headers = new Headers(options.headers);
  const token = document.querySelector('meta[name="csrf-token"]')?.content;
  if (token && !UNCHANGING.includes((options.method ?? "GET").toUpperCase())) {
    headers.set(CSRF_HEADER, token);
  }
  const answer = await fetch(address, { ...options, headers });
  if (answer.status === NOT_LOGGED_IN) {
    tellLoggedOut();
  }
  return answer;
}

function tellLoggedOut() {
  if (document.getElementById("logged-out") !== null) {
    return;
  }
  const told = document.createElement("p");
  told.id = "logged-out";
  told.className = "notice warning";
  told.setAttribute("role", "alert");
  const link = document.createElement("a");
  link.href = `/login?next=${encodeURIComponent(location.pathname + location.search)}`;
  link.textContent = "Log in again";
  told.append("You were logged out; this page shows the state of that time. ", link);
  document.getElementById("content").prepend(told);
}
