"""The few lines that run in the browser itself."""

PNG = """
async function (clicks) {
    if (clicks) {
        const graph = document.querySelector('#learning .js-plotly-plot');
        await window.Plotly.downloadImage(graph, {
            format: 'png', width: 900, height: 620, scale: 2, filename: 'polyceptron-learning'
        });
    }
    return clicks || 0;
}
"""
AT_START = """
function (session) {
    // Groups of radio buttons and check boxes are lists of options to Dash; here they are what they
    // look like, named by their legends.
    const tidy = () => document.querySelectorAll('fieldset [role="listbox"]').forEach((list) => {
        list.setAttribute('role', list.querySelector('[type="radio"]') ? 'radiogroup' : 'group');
        list.setAttribute('aria-label', list.closest('fieldset').querySelector('legend').innerText);
    });
    const plain = () => document.querySelectorAll('fieldset label').forEach((label) => {
        label.removeAttribute('role');
        label.removeAttribute('aria-selected');
    });
    const both = () => { tidy(); plain(); };
    both();
    new MutationObserver(both).observe(document.body, {
        subtree: true, childList: true, attributeFilter: ['aria-selected']
    });
    // Dash restores the text cursor of every input that it updates; a slider has none.
    const restore = HTMLInputElement.prototype.setSelectionRange;
    HTMLInputElement.prototype.setSelectionRange = function (...range) {
        return this.type === 'range' ? undefined : restore.apply(this, range);
    };
    return '';
}
"""
LINK = "function (search) { return window.location.origin + window.location.pathname + search; }"
