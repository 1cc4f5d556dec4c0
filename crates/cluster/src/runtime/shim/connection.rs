//! One peer of the shim: requests in, replies out, neither ever waited for.

use crate::runtime::sys;
use crate::runtime::wire::{self, Incoming, Reply, Request};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

/// Replies that a peer has not read yet; one that lets more pile up is dropped.
const OUTGOING_MAX: usize = 1024;

pub struct Connection {
    stream: UnixStream,
    incoming: Incoming,
    outgoing: VecDeque<(Vec<u8>, Vec<OwnedFd>)>,
    pub is_watching: bool,
    pub awaits_stop: bool,
}

impl Connection {
    pub fn new(stream: UnixStream) -> Connection {
        Connection {
            stream,
            incoming: Incoming::default(),
            outgoing: VecDeque::new(),
            is_watching: false,
            awaits_stop: false,
        }
    }

    pub fn interest(&self) -> (RawFd, libc::c_short) {
        let write = if self.outgoing.is_empty() { 0 } else { libc::POLLOUT };
        (self.stream.as_raw_fd(), libc::POLLIN | write)
    }

    /// Takes all requests that have arrived; false when the peer has gone or does not speak the protocol.
    pub fn read(&mut self, requests: &mut Vec<(Request, Vec<OwnedFd>)>) -> bool {
        loop {
            match self.incoming.fill(self.stream.as_fd()) {
                Ok(true) => {}
                Ok(false) => return false,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
            loop {
                match self.incoming.take_message() {
                    Ok(Some(request)) => requests.push((request, std::mem::take(&mut self.incoming.fds))),
                    Ok(None) => break,
                    Err(_) => return false,
                }
            }
        }
    }

    pub fn send(&mut self, reply: &Reply, fds: Vec<OwnedFd>) {
        if let Ok(frame) = wire::encode(reply) {
            self.outgoing.push_back((frame, fds));
        }
        self.flush();
    }

    /// Writes what the peer takes; false when it is gone or far behind.
    pub fn flush(&mut self) -> bool {
        while let Some((frame, fds)) = self.outgoing.front_mut() {
            let borrowed: Vec<BorrowedFd<'_>> = fds.iter().map(|fd| fd.as_fd()).collect();
            match sys::send_with_fds(self.stream.as_fd(), frame, &borrowed) {
                Ok(sent) if sent == frame.len() => drop(self.outgoing.pop_front()),
                Ok(sent) => {
                    frame.drain(..sent);
                    fds.clear();
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return self.outgoing.len() <= OUTGOING_MAX,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        true
    }
}
