//! The files that pages load besides their HTML. They are compressed once, and their addresses change with their
//! content.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::OnceLock;

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use flate2::Compression;
use flate2::write::GzEncoder;

/// Name, type and content of each file.
const FILES: [(&str, &str, &[u8]); 7] = [
    ("bellows.css", "text/css; charset=utf-8", include_bytes!("../assets/bellows.css")),
    ("bellows.js", "text/javascript; charset=utf-8", include_bytes!("../assets/bellows.js")),
    ("htmx.js", "text/javascript; charset=utf-8", include_bytes!("../assets/htmx-2.0.8.min.js")),
    (
        "idiomorph.js",
        "text/javascript; charset=utf-8",
        include_bytes!("../assets/idiomorph-ext-0.7.4.min.js"),
    ),
    ("uplot.js", "text/javascript; charset=utf-8", include_bytes!("../assets/uplot-1.6.32.min.js")),
    ("uplot.css", "text/css; charset=utf-8", include_bytes!("../assets/uplot-1.6.32.min.css")),
    ("icon.svg", "image/svg+xml", include_bytes!("../assets/icon.svg")),
];

struct Asset {
    name: &'static str,
    address: String,
    kind: &'static str,
    plain: &'static [u8],
    packed: Vec<u8>,
}

fn assets() -> &'static [Asset] {
    static ASSETS: OnceLock<Vec<Asset>> = OnceLock::new();
    ASSETS.get_or_init(|| {
        FILES
            .iter()
            .map(|(name, kind, plain)| {
                let mut packer = GzEncoder::new(Vec::new(), Compression::best());
                // Writing to memory cannot fail.
                let packed = packer.write_all(plain).and_then(|()| packer.finish()).unwrap_or_default();
                // FNV-1a: the name must only change with the content.
                let hash = plain.iter().fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
                    (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3)
                });
                let mut address = "/assets/".to_owned();
                let _infallible = write!(address, "{hash:016x}-{name}");
                Asset { name, address, kind, plain, packed }
            })
            .collect()
    })
}

/// Returns the address of a file by its name; an empty text if there is none.
pub(crate) fn address(name: &str) -> &'static str {
    assets().iter().find(|asset| asset.name == name).map_or("", |asset| &asset.address)
}

/// Returns the file with this address, compressed if the client accepts that; status 404 if there is none.
pub(crate) fn answer(path: &str, headers: &HeaderMap) -> Response {
    let Some(asset) = assets().iter().find(|asset| asset.address == path) else {
        return (StatusCode::NOT_FOUND, "no such file; load the page again\n").into_response();
    };
    let takes_gzip = headers
        .get(header::ACCEPT_ENCODING)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|value| value.contains("gzip"));
    let kept = "public, max-age=31536000, immutable";
    let head = [
        (header::CONTENT_TYPE, asset.kind),
        (header::CACHE_CONTROL, kept),
        (header::VARY, "accept-encoding"),
    ];
    if takes_gzip {
        (head, [(header::CONTENT_ENCODING, "gzip")], &asset.packed[..]).into_response()
    } else {
        (head, asset.plain).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_together_is_below_sixty_kilobytes() {
        let sum: usize = assets().iter().map(|asset| asset.packed.len()).sum();
        assert!(sum < 60 * 1_024, "{sum} bytes");
        assert!(assets().iter().all(|asset| !asset.packed.is_empty()));
    }

    #[test]
    fn names_change_with_the_content_and_licences_are_kept() {
        assert!(address("htmx.js").starts_with("/assets/") && address("htmx.js").ends_with("-htmx.js"));
        assert_ne!(address("uplot.js"), address("htmx.js"));
        assert_eq!(address("nothing"), "");
        for licence in [
            &include_bytes!("../assets/LICENSE-htmx")[..],
            include_bytes!("../assets/LICENSE-idiomorph"),
            include_bytes!("../assets/LICENSE-uplot"),
        ] {
            assert!(licence.len() > 100);
        }
    }
}
