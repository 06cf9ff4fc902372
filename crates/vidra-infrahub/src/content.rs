//! The content of artifacts: fetched by storage id, verified, cached.

use std::{
    fmt::Write as _,
    sync::{Arc, PoisonError},
};

use md5::{Digest, Md5};
use reqwest::Method;
use tokio::sync::Mutex as AsyncMutex;

use crate::{
    answer::Call,
    error::Error,
    session::Session,
    transport::{Ask, Reply},
};

impl Session {
    /// The content at a storage id, which must have this MD5 checksum.
    ///
    /// Content that was fetched before is not fetched again: what a storage id names never
    /// changes. Several calls for the same content share one download.
    pub async fn content(&self, storage_id: &str, checksum: &str) -> Result<Arc<str>, Error> {
        let checksum = checksum.to_ascii_lowercase();
        if let Some(content) = self.cached(storage_id, &checksum) {
            return Ok(content);
        }
        let arrival = self.arrival(storage_id);
        let result = {
            let _turn = arrival.lock().await;
            match self.cached(storage_id, &checksum) {
                Some(content) => Ok(content),
                None => self.download(storage_id, &checksum).await,
            }
        };
        self.end_arrival(storage_id, &arrival);
        result
    }

    async fn download(&self, storage_id: &str, checksum: &str) -> Result<Arc<str>, Error> {
        let what = "a storage id that cannot be one";
        let url = self
            .address
            .join(["api", "storage", "object", storage_id])
            .ok_or(Error::Unexpected { what })?;
        let ask = Ask {
            method: Method::GET,
            url,
            json: None,
            limit: self.policy.content_limit,
        };
        // The semaphore is never closed; if it were, the limit would be gone, not the content.
        let _permit = self.downloads.acquire().await;
        let reply = self.ask(&ask, Call::Content).await?;
        let content = verified(reply, checksum)?;
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.put(storage_id, checksum, &content);
        Ok(content)
    }

    fn cached(&self, storage_id: &str, checksum: &str) -> Option<Arc<str>> {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.get(storage_id, checksum)
    }

    fn arrival(&self, storage_id: &str) -> Arc<AsyncMutex<()>> {
        let mut arriving = self.arriving.lock().unwrap_or_else(PoisonError::into_inner);
        // What callers left behind that were dropped in the middle of a download.
        arriving.retain(|_, arrival| Arc::strong_count(arrival) > 1);
        Arc::clone(arriving.entry(storage_id.to_owned()).or_default())
    }

    fn end_arrival(&self, storage_id: &str, arrival: &Arc<AsyncMutex<()>>) {
        let mut arriving = self.arriving.lock().unwrap_or_else(PoisonError::into_inner);
        // Ours and the map's: nobody else waits.
        if Arc::strong_count(arrival) <= 2 {
            arriving.remove(storage_id);
        }
    }
}

/// The checksum first: only what Infrahub really rendered is worth a closer look.
fn verified(reply: Reply, checksum: &str) -> Result<Arc<str>, Error> {
    let actual = md5_hex(&reply.body);
    if actual != checksum {
        return Err(mismatch(&reply, checksum, actual));
    }
    if reply.body.trim_ascii().is_empty() {
        return Err(Error::EmptyContent);
    }
    let text = String::from_utf8(reply.body).map_err(|_| Error::NotText)?;
    Ok(text.into())
}

fn mismatch(reply: &Reply, checksum: &str, actual: String) -> Error {
    if reply.is_html() {
        return Error::WebPage {
            status: reply.status.as_u16(),
        };
    }
    Error::ChecksumMismatch {
        expected: checksum.chars().take(32).collect(),
        actual,
    }
}

fn md5_hex(bytes: &[u8]) -> String {
    Md5::digest(bytes)
        .iter()
        .fold(String::new(), |mut text, byte| {
            // Writing into a String cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
}

#[cfg(test)]
mod tests {
    use reqwest::{StatusCode, header::HeaderMap};

    use super::*;

    fn judged(body: &[u8], checksum: &str) -> Result<Arc<str>, &'static str> {
        let reply = Reply {
            status: StatusCode::OK,
            headers: HeaderMap::new(),
            body: body.to_vec(),
        };
        verified(reply, checksum).map_err(|error| error.code())
    }

    #[test]
    fn content_with_its_checksum_is_accepted() {
        let content = judged(b"kind: ConfigMap\n", &md5_hex(b"kind: ConfigMap\n"));
        assert_eq!(content.as_deref(), Ok("kind: ConfigMap\n"));
        assert_eq!(md5_hex(b""), "d41d8cd98f00b204e9800998ecf8427e");
    }

    #[test]
    fn content_with_another_checksum_is_not_even_looked_at() {
        for body in [&b"kind: ConfigMap"[..], b"", b"\xff", b"{}"] {
            assert_eq!(judged(body, &"0".repeat(32)), Err("ChecksumMismatch"));
        }
        assert_eq!(
            judged(b"<!DOCTYPE HTML><p>Log in", &"0".repeat(32)),
            Err("WebPage")
        );
    }

    #[test]
    fn empty_or_binary_content_is_refused_even_with_its_checksum() {
        assert_eq!(judged(b"", &md5_hex(b"")), Err("EmptyContent"));
        assert_eq!(
            judged(b" \n\t\n", &md5_hex(b" \n\t\n")),
            Err("EmptyContent")
        );
        assert_eq!(judged(b"\xff\xfe", &md5_hex(b"\xff\xfe")), Err("NotText"));
    }
}
