//! Decides who may change something from a page.
//!
//! A change must be a POST from a page of this server, as the browser says (`Sec-Fetch-Site`, `Origin`). The browser
//! must have used an address of this machine. The form must have the token of this process, and the user must have
//! typed the name of the thing that is changed. On an address that other machines can reach nothing can be changed,
//! because there is no authentication.

use axum::http::{HeaderMap, header};
use env::World;

use crate::node::Console;
use crate::query::Query;

/// Checks requests for a change.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    token: String,
}

impl Guard {
    /// Creates a guard with a random token.
    pub(crate) fn new(world: &World) -> Guard {
        Guard { token: format!("{:016x}{:016x}", world.random(), world.random()) }
    }

    /// Returns the token for forms of this process.
    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// Checks whether a form may change `name`. The error says why not.
    pub(crate) fn check(
        &self,
        console: &Console,
        headers: &HeaderMap,
        form: &Query,
        name: &str,
    ) -> Result<(), String> {
        Guard::check_origin(console, headers)?;
        if form.get("token") != self.token {
            return Err("the page is older than the server; load it again".to_owned());
        }
        if form.get("confirm") != name {
            return Err(format!("type {name} to confirm, expected exactly that"));
        }
        Ok(())
    }

    /// Checks that a request for a change does not come from another site or machine. The error says why it may.
    pub(crate) fn check_origin(console: &Console, headers: &HeaderMap) -> Result<(), String> {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        if !console.may_change() {
            return Err("actions are off on an address that other machines can reach".to_owned());
        }
        let host = text(header::HOST.as_str()).unwrap_or_default();
        // The name in the request must be one of this server. Another site may have pointed a name of its own at this
        // machine (DNS rebinding).
        let own = host.rsplit_once(':').map_or(host, |(name, _)| name);
        if !matches!(own, "localhost" | "127.0.0.1" | "[::1]") {
            return Err(format!("the page was opened as {host:?}; open it as localhost or 127.0.0.1"));
        }
        if text("sec-fetch-site").is_some_and(|site| site != "same-origin") {
            return Err("the form comes from another site".to_owned());
        }
        if let Some(origin) = text(header::ORIGIN.as_str())
            && origin.strip_prefix("http://") != Some(host)
        {
            return Err("the form comes from another site".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log_ring::LogRing;
    use crate::node::About;
    use env::WallTime;

    fn console(web: &str) -> std::sync::Arc<Console> {
        let world = World::simulated(7, WallTime(0));
        let about = About {
            version: "0",
            root: String::new(),
            web: web.parse().expect("an address"),
            started: WallTime(0),
        };
        Console::new(world.clone(), conf::Conf::new(), about, LogRing::new(world))
    }

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (name.parse().expect("a name"), value.parse().expect("a value")))
            .collect()
    }

    #[test]
    fn only_a_form_of_this_server_with_the_name_typed_may_change_anything() {
        let console = console("127.0.0.1:16010");
        let guard = Guard::new(&console.world);
        let form = Query::default().with("token", guard.token()).with("confirm", "t");
        let own = [
            ("host", "localhost:16010"),
            ("origin", "http://localhost:16010"),
            ("sec-fetch-site", "same-origin"),
        ];
        assert_eq!(guard.check(&console, &headers(&own), &form, "t"), Ok(()));
        let refused = |pairs: &[(&'static str, &'static str)], form: &Query, part: &str| {
            let error = guard.check(&console, &headers(pairs), form, "t").expect_err(part);
            assert!(error.contains(part), "{error}, expected {part}");
        };
        refused(&[own[0], ("origin", "http://evil.example"), own[2]], &form, "another site");
        refused(&[own[0], own[1], ("sec-fetch-site", "cross-site")], &form, "another site");
        refused(&[("host", "evil.example:16010")], &form, "open it as localhost");
        refused(&own, &form.with("token", "0"), "load it again");
        refused(&own, &form.with("confirm", "T"), "to confirm");
    }

    #[test]
    fn nothing_may_be_changed_where_other_machines_can_reach() {
        let console = console("0.0.0.0:16010");
        let guard = Guard::new(&console.world);
        let form = Query::default().with("token", guard.token()).with("confirm", "t");
        let error =
            guard.check(&console, &headers(&[("host", "localhost:1")]), &form, "t").expect_err("open");
        assert!(error.contains("other machines"), "{error}");
    }
}
