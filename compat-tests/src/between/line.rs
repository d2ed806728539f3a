//! One connection through a relay: requests as they come, answers as soon as they are whole.

use std::collections::VecDeque;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use super::message::{Answer, Request};
use super::relay::Shared;
use crate::target::wire::{Head, latin1};

/// More than this of an answer isn't waited for; it goes as it comes.
const MOST: usize = 32 << 20;

/// The requests that wait for their answers: method and target.
type Asked = Arc<Mutex<VecDeque<(String, String)>>>;

/// The two directions of a connection.
pub(super) struct Line;

impl Line {
    /// Carries until both sides have ended.
    pub fn carry(shared: &Arc<Shared>, client: TcpStream, server: TcpStream) {
        let _ = client.set_nodelay(true);
        let _ = server.set_nodelay(true);
        let (Ok(from_client), Ok(to_server)) = (client.try_clone(), server.try_clone()) else { return };
        let asked = Asked::default();
        let (sharing, asking) = (Arc::clone(shared), Arc::clone(&asked));
        let up = thread::spawn(move || requests(&sharing, from_client, to_server, &asking));
        answers(shared, server, client, &asked);
        let _ = up.join();
    }
}

fn requests(shared: &Arc<Shared>, mut client: TcpStream, mut server: TcpStream, asked: &Asked) {
    let mut piece = vec![0; 1 << 18];
    let mut heard = Some(Vec::new());
    loop {
        let count = match client.read(&mut piece) {
            Ok(0) | Err(_) => break,
            Ok(count) => count,
        };
        let data = &piece[..count];
        let fresh = heard.as_ref().is_some_and(Vec::is_empty);
        let whole = if fresh { Request::read(data) } else { None };
        thread::sleep(shared.lateness() / 2);
        let sent = match whole {
            Some(request) => {
                lock(asked).push_back((request.method.clone(), request.target.clone()));
                server.write_all(&request.written(&|text| shared.to_server(text)))
            }
            None => {
                heard = heard.and_then(|mut heard| {
                    heard.extend_from_slice(data);
                    take_heads(&mut heard, asked).then_some(heard)
                });
                server.write_all(data)
            }
        };
        if sent.is_err() {
            break;
        }
    }
    let _ = server.shutdown(Shutdown::Write);
}

/// Takes whole requests off the front; `false` once that isn't possible any more.
fn take_heads(heard: &mut Vec<u8>, asked: &Asked) -> bool {
    while let Some(end) = heard.windows(4).position(|four| four == b"\r\n\r\n") {
        let head = latin1(&heard[..end]);
        let mut words = head.split(' ');
        let (Some(method), Some(target)) = (words.next(), words.next()) else { return false };
        let lower = head.to_lowercase();
        if lower.contains("transfer-encoding") {
            lock(asked).push_back((method.to_owned(), target.to_owned()));
            return false;
        }
        let length = lower.split("content-length:").nth(1).and_then(|rest| rest.lines().next());
        let length = length.map_or(Some(0), |length| length.trim().parse::<usize>().ok());
        let Some(length) = length else { return false };
        lock(asked).push_back((method.to_owned(), target.to_owned()));
        let all = end + 4 + length;
        if heard.len() < all {
            return false; // its body is still to come, and what follows isn't looked at
        }
        heard.drain(..all);
    }
    true
}

fn answers(shared: &Shared, mut server: TcpStream, mut client: TcpStream, asked: &Asked) {
    let mut piece = vec![0; 1 << 16];
    let (mut data, mut closed, mut plain) = (Vec::new(), false, false);
    while !closed {
        match server.read(&mut piece) {
            Ok(count) if count > 0 => data.extend_from_slice(&piece[..count]),
            _ => closed = true,
        }
        while !plain && !data.is_empty() {
            let next = lock(asked).front().cloned();
            let bare = next.as_ref().is_some_and(|(method, _)| method == "HEAD");
            let interim = Head::read(&data).is_some_and(|head| head.status < 200);
            let Some((answer, length)) = Answer::read(&data, bare, closed) else {
                plain = data.len() > MOST || data.len() >= 5 && !data.starts_with(b"HTTP/");
                break;
            };
            let bytes = if interim {
                data[..length].to_vec()
            } else {
                lock(asked).pop_front();
                thread::sleep(shared.lateness() / 2);
                let (method, target) = next.unwrap_or_default();
                shared.answer(&method, &target, answer)
            };
            data.drain(..length);
            if client.write_all(&bytes).is_err() {
                return drop(server.shutdown(Shutdown::Both));
            }
        }
        if (plain || closed) && !data.is_empty() {
            thread::sleep(shared.lateness() / 2);
            let sent = client.write_all(&data);
            data.clear();
            if sent.is_err() {
                break;
            }
        }
    }
    let _ = client.shutdown(Shutdown::Both);
    let _ = server.shutdown(Shutdown::Both);
}

impl Shared {
    /// What is asked of this relay, as it is asked of the server.
    fn to_server(self: &Arc<Self>, text: &str) -> String {
        let (server, here) = &self.names;
        let encoded = |name: &str| name.replace(':', "%3A");
        let text = text.replace(here, server).replace(&encoded(here), &encoded(server));
        self.datagrams.asked_by(self, &text)
    }
}

fn lock(asked: &Asked) -> std::sync::MutexGuard<'_, VecDeque<(String, String)>> {
    asked.lock().unwrap_or_else(PoisonError::into_inner)
}
