// A copy button for every block of code; output blocks have none.
document.addEventListener("DOMContentLoaded", () => {
  for (const block of document.querySelectorAll("div.highlight")) {
    if (block.parentElement.classList.contains("highlight-text")) continue;
    const button = document.createElement("button");
    button.className = "copy";
    button.type = "button";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      await copyText(codeOf(block.querySelector("pre").innerText));
      button.textContent = "Copied";
      setTimeout(() => (button.textContent = "Copy"), 1500);
    });
    block.append(button);
  }
});

// The lines behind the prompts of an example, without its output; all lines where there are none.
function codeOf(text) {
  const lines = text.trimEnd().split("\n");
  const typed = lines.filter((line) => /^(>>>|\.\.\.)( |$)/.test(line));
  const code = typed.length ? typed.map((line) => line.slice(4)) : lines;
  return code.join("\n") + "\n";
}

// Pages opened from the disk may have no clipboard of their own: there a hidden text area serves.
async function copyText(text) {
  if (navigator.clipboard && window.isSecureContext) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}
