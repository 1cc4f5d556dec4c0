//! HTTP by hand: one connection, request after request, and a clear difference between "refused" and "nobody knows".

use crate::support::PATIENCE;
use serde_json::Value;
use std::io;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

pub struct Connection {
    stream: BufReader<TcpStream>,
    key: String,
}

pub struct Reply {
    pub status: u16,
    pub body: Vec<u8>,
}

impl Connection {
    pub async fn open(address: &str, key: &str) -> io::Result<Connection> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream: BufReader::new(stream), key: key.to_owned() })
    }

    /// An error means that nobody knows whether it was done.
    pub async fn send(&mut self, head: &str, body: &str) -> io::Result<Reply> {
        let late = |_| io::Error::from(io::ErrorKind::TimedOut);
        tokio::time::timeout(PATIENCE, self.exchange(head, body)).await.map_err(late)?
    }

    async fn exchange(&mut self, head: &str, body: &str) -> io::Result<Reply> {
        let text = format!(
            "{head} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            self.key,
            body.len()
        );
        self.stream.get_mut().write_all(text.as_bytes()).await?;
        let broken = || io::Error::from(io::ErrorKind::UnexpectedEof);
        let mut line = String::new();
        self.stream.read_line(&mut line).await?;
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(broken)?;
        let mut length = 0;
        loop {
            line.clear();
            if self.stream.read_line(&mut line).await? == 0 {
                return Err(broken());
            }
            let field = line.trim().to_ascii_lowercase();
            if field.is_empty() {
                break;
            }
            if let Some(value) = field.strip_prefix("content-length: ") {
                length = value.parse().map_err(|_| broken())?;
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).await?;
        Ok(Reply { status, body })
    }

    /// The data of a GraphQL answer. A failure of the server is nobody's knowledge; a refusal fails the test.
    pub async fn graphql(&mut self, query: &str, variables: Value) -> io::Result<Value> {
        let body = serde_json::json!({ "query": query, "variables": variables }).to_string();
        let reply = self.send("POST /graphql", &body).await?;
        if reply.status >= 500 {
            return Err(io::Error::other(String::from_utf8_lossy(&reply.body).into_owned()));
        }
        let mut answer: Value = serde_json::from_slice(&reply.body).map_err(io::Error::other)?;
        assert_eq!(reply.status, 200, "{query}: {answer}");
        Ok(answer["data"].take())
    }
}
