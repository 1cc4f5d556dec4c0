//! The web page: files that `make web` built and `build.rs` made a part of the program.
//!
//! Files with a hash in their names are kept by browsers for good; the page that names them is asked for every time. Any
//! other path that a browser opens is a place inside the page, and gets the page itself. A program built for trying out takes the
//! page from the folder that `VOLLEY_PAGE` names, so that a change of the page needs no new program.

use crate::fault::Fault;
use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use flate2::read::GzDecoder;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use std::io::Read as _;
use std::path::Path;
use std::sync::LazyLock;
use std::{env, fs, io};

include!(concat!(env!("OUT_DIR"), "/page.rs"));

/// One file of the page, compressed when the page was built.
pub struct File {
    path: &'static str,
    brotli: &'static [u8],
    gzip: &'static [u8],
}

/// Scripts and styles come from here, and nothing from anywhere else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; \
    connect-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
/// What is not a place in the page: an unknown path below these is a client's mistake, and is told as one.
const MACHINES: &[&str] = &["/api/", "/graphql", "/files/", "/blobs/", "/artifacts", "/sdk/", "/assets/"];
const UNBUILT: &str = "<!doctype html><meta charset=utf-8><title>Volley</title><h1>The page is not part of this program</h1>\
    <p>The server works, but it was built without its web page. Build both with <code>make build</code>, which needs Node 20.19 or newer.</p>\n";

pub async fn serve(method: Method, uri: Uri, headers: HeaderMap) -> Response {
    answer(&method, uri.path(), &headers)
}

fn answer(method: &Method, path: &str, headers: &HeaderMap) -> Response {
    if method != Method::GET && method != Method::HEAD {
        return missing();
    }
    let files = *SERVED;
    if let Some(file) = files.iter().find(|file| file.path == path.trim_start_matches('/')) {
        return send(file, headers);
    }
    let is_browser = headers.get(header::ACCEPT).is_some_and(|accept| accept.as_bytes().starts_with(b"text/html"));
    if !is_browser || MACHINES.iter().any(|machine| path.starts_with(machine)) {
        return missing();
    }
    match files.iter().find(|file| file.path == "index.html") {
        Some(page) => send(page, headers),
        None => protected(Response::new(Body::from(UNBUILT)), "text/html; charset=utf-8"),
    }
}

static SERVED: LazyLock<&'static [File]> = LazyLock::new(|| match env::var_os("VOLLEY_PAGE") {
    Some(folder) if cfg!(debug_assertions) => {
        let mut files = Vec::new();
        if let Err(error) = gather(Path::new(&folder), "", &mut files) {
            tracing::error!(%error, ?folder, "the folder of the page cannot be read");
        }
        files.leak()
    }
    _ => FILES,
});

/// Reads a folder that `web/tools/pack.mjs` filled: every file as `.br` and as `.gz`.
fn gather(folder: &Path, inside: &str, files: &mut Vec<File>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = format!("{inside}{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            gather(&entry.path(), &format!("{name}/"), files)?;
        } else if let Some(path) = name.strip_suffix(".br") {
            let brotli = fs::read(entry.path())?.leak();
            let gzip = fs::read(entry.path().with_extension("gz"))?.leak();
            files.push(File { path: path.to_owned().leak(), brotli, gzip });
        }
    }
    Ok(())
}

fn missing() -> Response {
    Fault::missing("this path").into_response()
}

fn send(file: &File, headers: &HeaderMap) -> Response {
    let accepted = headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or("");
    let (body, encoding) = match () {
        () if accepts(accepted, "br") => (Body::from(file.brotli), Some("br")),
        () if accepts(accepted, "gzip") => (Body::from(file.gzip), Some("gzip")),
        () => (Body::from(plain(file)), None),
    };
    let is_hashed = file.path.starts_with("assets/");
    let cache = if is_hashed { "public, max-age=31536000, immutable" } else { "no-cache" };
    let mut response = protected(Response::new(body), media_type(file.path));
    let fields = response.headers_mut();
    fields.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
    fields.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    if let Some(encoding) = encoding {
        fields.insert(header::CONTENT_ENCODING, HeaderValue::from_static(encoding));
    }
    response
}

fn accepts(accepted: &str, encoding: &str) -> bool {
    accepted.split(',').any(|one| {
        let (name, quality) = one.split_once(';').unwrap_or((one, ""));
        name.trim() == encoding && !matches!(quality.trim(), "q=0" | "q=0.0")
    })
}

fn plain(file: &File) -> Vec<u8> {
    let mut bytes = Vec::new();
    match GzDecoder::new(file.gzip).read_to_end(&mut bytes) {
        Ok(_) => bytes,
        Err(error) => {
            tracing::error!(%error, file.path, "a file of the page is damaged; build the program again");
            Vec::new()
        }
    }
}

fn protected(mut response: Response, media: &'static str) -> Response {
    *response.status_mut() = StatusCode::OK;
    let fields = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_TYPE, media),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ] {
        fields.insert(name, HeaderValue::from_static(value));
    }
    response
}

fn media_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map_or("", |(_, ending)| ending) {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "json" => "application/json",
        "woff2" => "font/woff2",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(path: &str, accept: &str, encoding: &str) -> Response {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, accept.parse().unwrap());
        headers.insert(header::ACCEPT_ENCODING, encoding.parse().unwrap());
        answer(&Method::GET, path, &headers)
    }

    fn field(response: &Response, name: HeaderName) -> &str {
        response.headers().get(name).map_or("", |value| value.to_str().unwrap())
    }

    const BROWSER: &str = "text/html,application/xhtml+xml,*/*;q=0.8";

    #[test]
    fn a_browser_gets_the_page_at_any_place_in_it() {
        for path in ["/", "/launch", "/alice/mnist/runs/abc", "/settings"] {
            let page = ask(path, BROWSER, "gzip, br");
            assert_eq!(page.status(), StatusCode::OK, "{path}");
            assert_eq!(field(&page, header::CONTENT_TYPE), "text/html; charset=utf-8", "{path}");
            assert!(!field(&page, header::CONTENT_SECURITY_POLICY).contains("unsafe"), "{path}");
        }
    }

    #[test]
    fn a_client_that_is_lost_is_told_so() {
        for path in ["/api/v1/nothing", "/graphql", "/assets/old-hash.js", "/artifacts/x"] {
            assert_eq!(ask(path, BROWSER, "br").status(), StatusCode::NOT_FOUND, "{path}");
        }
        assert_eq!(ask("/launch", "*/*", "br").status(), StatusCode::NOT_FOUND);
    }

    #[test]
    fn every_file_comes_as_its_client_can_read_it_and_hashed_ones_are_kept() {
        for file in FILES {
            for (asked, given) in [("gzip, deflate, br", "br"), ("gzip", "gzip"), ("br;q=0", ""), ("", "")] {
                let sent = send(file, &HeaderMap::from_iter([(header::ACCEPT_ENCODING, asked.parse().unwrap())]));
                assert_eq!(field(&sent, header::CONTENT_ENCODING), given, "{} {asked}", file.path);
                let is_kept = field(&sent, header::CACHE_CONTROL).contains("immutable");
                assert_eq!(is_kept, file.path.starts_with("assets/"), "{}", file.path);
            }
            assert!(!plain(file).is_empty(), "{}", file.path);
        }
    }
}
