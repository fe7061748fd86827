//! Shows a dashboard of a running server in a terminal. The server renders it as text at a path of its web port; the
//! command fetches it again and again.

use std::time::Duration;

use crate::args::Watch;
use crate::failure::Failure;
use crate::output;
use crate::page;

/// Clears the screen and moves to its upper left corner.
const CLEAR: &str = "\x1b[2J\x1b[H";

/// Fetches the dashboard at `path` again and again and passes it to `show`, until `show` fails because nobody reads its
/// output any more; with `--once` only once. Fails if the page cannot be fetched.
pub(crate) fn watch(
    options: &Watch,
    path: &str,
    mut show: impl FnMut(&str) -> std::io::Result<()>,
) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(format!("cannot start: {error}")))?;
    runtime.block_on(async {
        loop {
            let page = page::get(options.web, path).await.map_err(|error| {
                Failure::new(format!(
                    "--web {}: {error}; is the server up, and is this its web port?",
                    options.web
                ))
            })?;
            let clear = if options.once { "" } else { CLEAR };
            let shown = show(&format!("{clear}{page}"));
            if shown.is_err() || options.once {
                return output::ignoring_closed_pipe(shown);
            }
            env::sleep(Duration::from_secs_f64(options.every)).await;
        }
    })
}
