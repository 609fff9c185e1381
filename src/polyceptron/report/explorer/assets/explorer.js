// What runs in the browser itself; callbacks.py registers it.
window.dash_clientside = Object.assign({}, window.dash_clientside, {
    explorer: {
        // The learning figure as a PNG, with the problem as its title.
        png: async (clicks, settings) => {
            if (clicks) {
                const graph = document.querySelector('#learning .js-plotly-plot');
                const title = {text: settings.caption, font: {size: 14}, x: 0.02, xanchor: 'left'};
                const layout = {...graph.layout, title, margin: {...graph.layout.margin, t: 48}};
                await window.Plotly.downloadImage({data: graph.data, layout}, {
                    format: 'png', width: 900, height: 620, scale: 2,
                    filename: 'polyceptron-learning'
                });
            }
            return clicks || 0;
        },
        tidy: () => {
            // Groups of radio buttons and check boxes are lists of options to Dash; here they are
            // what they look like, named by their legends.
            const both = () => {
                document.querySelectorAll('fieldset [role="listbox"]').forEach((list) => {
                    const radio = list.querySelector('[type="radio"]');
                    const legend = list.closest('fieldset').querySelector('legend');
                    list.setAttribute('role', radio ? 'radiogroup' : 'group');
                    list.setAttribute('aria-label', legend.innerText);
                });
                document.querySelectorAll('fieldset label').forEach((label) => {
                    label.removeAttribute('role');
                    label.removeAttribute('aria-selected');
                });
            };
            both();
            new MutationObserver(both).observe(document.body, {
                subtree: true, childList: true, attributeFilter: ['aria-selected']
            });
            // Dash restores the text cursor of every input that it updates; a slider has none.
            const restore = HTMLInputElement.prototype.setSelectionRange;
            HTMLInputElement.prototype.setSelectionRange = function (...range) {
                return this.type === 'range' ? undefined : restore.apply(this, range);
            };
            // The settings are folded on a narrow screen, where the figure comes first.
            const wide = window.matchMedia('(min-width: 901px)');
            const fold = () => { document.querySelector('#settings-fold').open = wide.matches; };
            fold();
            wide.addEventListener('change', fold);
            return '';
        },
        link: (search, key) => {
            const query = key ? '?token=' + key + (search ? '&' + search.slice(1) : '') : search;
            return window.location.origin + window.location.pathname + query;
        },
        // The button says that the link was copied, until there is another link.
        copy: async (clicks, link) => {
            const pressed = window.dash_clientside.callback_context.triggered_id === 'copy-link';
            if (!clicks || !pressed) {
                return 'Copy link';
            }
            try {
                await navigator.clipboard.writeText(link);
            } catch {
                document.querySelector('#link').select();
                document.execCommand('copy');
            }
            return 'Copied';
        },
        // What was drawn for other settings is dimmed until its successor is there; after a value
        // that was refused, everything is, and nothing is "Ready".
        dim: (settings, drawn, refused) => {
            const all = !drawn || refused || (settings && settings.stamp !== drawn.stamp);
            const plots = ['learning', 'order', 'landscape'].map((name) =>
                (all || drawn.stale.includes(name)) ? 'plot stale' : 'plot');
            return [...plots, refused ? 'status refused' : 'status'];
        }
    }
});
