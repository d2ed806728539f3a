//! Calls to a server that speaks raw bytes.

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpSocket, TcpStream},
};

use super::*;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const LIMIT: Duration = Duration::from_secs(20);

/// Listens at an address of this file's tests.
async fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.20.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

/// The head of the next request; empty where the connection was closed.
async fn head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return String::new(),
        }
    }
    String::from_utf8(head).unwrap()
}

/// A server whose connections each get the next of these texts, answer by answer, and then are closed.
async fn scripted(connections: Vec<Vec<&'static str>>) -> String {
    let (listener, address) = listen().await;
    tokio::spawn(async move {
        for answers in connections {
            let mut stream = listener.accept().await.unwrap().0;
            for answer in answers {
                head(&mut stream).await;
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        }
    });
    address
}

fn get() -> Request<Bytes> {
    Request::get("/a?b=c").body(Bytes::new()).unwrap()
}

async fn call(client: &Client, to: &str) -> Result<Response<Bytes>, CallError> {
    client.send(to, get(), LIMIT, 64).await
}

async fn call_anew(to: &str) -> Result<Response<Bytes>, CallError> {
    call(&Client::new(ClientSettings::default()), to).await
}

#[tokio::test]
async fn an_answer_comes_whole_whatever_its_status() {
    let to = scripted(vec![vec!["HTTP/1.1 404 Not Found\r\nX-A: b\r\nContent-Length: 3\r\n\r\nno!"]]).await;
    let answer = call_anew(&to).await.unwrap();
    assert_eq!(answer.status(), 404);
    assert_eq!(answer.headers()["x-a"], "b");
    assert_eq!(answer.body(), "no!");
}

#[tokio::test]
async fn the_request_is_sent_with_its_path_its_host_and_its_body() {
    let (listener, to) = listen().await;
    let seen = tokio::spawn(async move {
        let mut stream = listener.accept().await.unwrap().0;
        let head = head(&mut stream).await;
        let mut body = [0; 4];
        stream.read_exact(&mut body).await.unwrap();
        stream.write_all(OK.as_bytes()).await.unwrap();
        (head, body)
    });
    let client = Client::new(ClientSettings::default());
    let request = Request::get("/a?b=c").header("x-y", "z").body(Bytes::from_static(b"body")).unwrap();
    assert_eq!(client.send(&to, request, LIMIT, 64).await.unwrap().body(), "ok");
    let (head, body) = seen.await.unwrap();
    let expected = format!("GET /a?b=c HTTP/1.1\r\nx-y: z\r\nhost: {to}\r\ncontent-length: 4\r\n\r\n");
    assert_eq!((head, &body), (expected, b"body"));
}

#[tokio::test]
async fn a_connection_serves_many_calls() {
    let (listener, to) = listen().await;
    let client = Client::new(ClientSettings::default());
    let served = tokio::spawn(async move {
        let mut stream = listener.accept().await.unwrap().0;
        for _ in 0..3 {
            head(&mut stream).await;
            stream.write_all(OK.as_bytes()).await.unwrap();
        }
    });
    for _ in 0..3 {
        assert_eq!(call(&client, &to).await.unwrap().body(), "ok");
    }
    served.await.unwrap();
}

#[tokio::test]
async fn where_nobody_listens_a_call_is_refused() {
    let (listener, to) = listen().await;
    drop(listener);
    let error = call_anew(&to).await.unwrap_err();
    assert!(matches!(&error, CallError::Refused(cause) if cause.kind() == io::ErrorKind::ConnectionRefused));
}

#[tokio::test]
async fn a_connection_that_is_closed_without_a_byte_is_told_apart() {
    let to = scripted(vec![vec![""]]).await;
    assert!(matches!(call_anew(&to).await, Err(CallError::Closed)));
}

#[tokio::test]
async fn so_is_one_that_is_reset() {
    let (listener, to) = listen().await;
    let reset = tokio::spawn(async move {
        let mut stream = listener.accept().await.unwrap().0;
        head(&mut stream).await;
        stream.set_zero_linger().unwrap();
    });
    assert!(matches!(call_anew(&to).await, Err(CallError::Closed)));
    reset.await.unwrap();
}

#[tokio::test]
async fn and_one_that_is_closed_before_anything_is_read() {
    let to = scripted(vec![vec![]]).await;
    assert!(matches!(call_anew(&to).await, Err(CallError::Closed)));
}

#[tokio::test]
async fn a_connection_that_others_had_used_is_replaced_when_it_is_closed() {
    let to = scripted(vec![vec![OK, ""], vec![OK]]).await;
    let client = Client::new(ClientSettings::default());
    for _ in 0..2 {
        assert_eq!(call(&client, &to).await.unwrap().body(), "ok");
    }
}

#[tokio::test]
async fn when_the_server_has_ended_the_last_attempt_tells() {
    let to = scripted(vec![vec![OK, ""], vec![""]]).await;
    let client = Client::new(ClientSettings::default());
    assert_eq!(call(&client, &to).await.unwrap().body(), "ok");
    assert!(matches!(call(&client, &to).await, Err(CallError::Closed)));
    // Nobody listens any more.
    assert!(matches!(call(&client, &to).await, Err(CallError::Refused(_))));
}

/// The pool may give out a connection in the moment of its closing; the answer that it had brought before is not the
/// beginning of this one's.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_that_ends_in_the_moment_of_a_call_is_gone_and_not_broken() {
    // Whoever else listens must not get the port of one that has ended: a socket that is bound to it holds it.
    let bound = |to: &str| {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseport(true).unwrap();
        socket.bind(to.parse().unwrap()).unwrap();
        socket
    };
    // Nor must the same test in another process.
    let process = std::process::id();
    let own = format!("127.21.{}.{}:0", process / 250 % 250 + 1, process % 250 + 1);
    for _ in 0..50 {
        let holder = bound(&own);
        let to = holder.local_addr().unwrap().to_string();
        let listener = bound(&to).listen(16).unwrap();
        let (ends, end) = tokio::sync::oneshot::channel::<()>();
        let server = tokio::spawn(async move {
            let mut stream = listener.accept().await.unwrap().0;
            head(&mut stream).await;
            stream.write_all(OK.as_bytes()).await.unwrap();
            let _ = end.await;
            drop((listener, stream));
        });
        let client = Client::new(ClientSettings::default());
        assert_eq!(call(&client, &to).await.unwrap().body(), "ok");
        let calls = (0..8).map(|_| {
            let (client, to) = (client.clone(), to.clone());
            tokio::spawn(async move { call(&client, &to).await })
        });
        let calls: Vec<_> = calls.collect();
        ends.send(()).unwrap();
        for called in calls {
            let error = called.await.unwrap().unwrap_err();
            assert!(matches!(error, CallError::Refused(_) | CallError::Closed), "{error:?}");
        }
        server.await.unwrap();
    }
}

#[tokio::test]
async fn answers_that_are_cut_or_nonsense_are_broken() {
    for broken in [
        "HTTP/1.1 2",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: much\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok",
        "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n",
        "SSH-2.0-OpenSSH_9.6\r\n",
    ] {
        let to = scripted(vec![vec![broken]]).await;
        let answer = call_anew(&to).await;
        assert!(matches!(answer, Err(CallError::Broken(_))), "{broken}: {answer:?}");
    }
}

#[tokio::test]
async fn a_cut_answer_on_a_used_connection_is_not_asked_for_again() {
    let to = scripted(vec![vec![OK, "HTTP/1.1 200 OK\r\n"], vec![OK]]).await;
    let client = Client::new(ClientSettings::default());
    assert_eq!(call(&client, &to).await.unwrap().body(), "ok");
    assert!(matches!(call(&client, &to).await, Err(CallError::Broken(_))));
}

#[tokio::test]
async fn large_answers_are_given_up() {
    let body = "x".repeat(65);
    for head in ["Content-Length: 65\r\n\r\n", "Connection: close\r\n\r\n"] {
        let answer: &'static str = format!("HTTP/1.1 200 OK\r\n{head}{body}").leak();
        let to = scripted(vec![vec![answer]]).await;
        assert!(matches!(call_anew(&to).await, Err(CallError::TooLarge)), "{head}");
    }
    let answer: &'static str = format!("HTTP/1.1 200 OK\r\nContent-Length: 64\r\n\r\n{}", &body[1..]).leak();
    let to = scripted(vec![vec![answer]]).await;
    assert_eq!(call_anew(&to).await.unwrap().body().len(), 64);
}

#[tokio::test]
async fn a_server_that_is_silent_costs_the_limit_and_the_connection() {
    for begun in ["", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok"] {
        let (listener, to) = listen().await;
        let serving = tokio::spawn(async move {
            let mut stream = listener.accept().await.unwrap().0;
            head(&mut stream).await;
            stream.write_all(begun.as_bytes()).await.unwrap();
            // Until the client closes.
            stream.read(&mut [0; 8]).await.unwrap_or(0)
        });
        let client = Client::new(ClientSettings::default());
        let answer = client.send(&to, get(), Duration::from_millis(50), 64).await;
        assert!(matches!(answer, Err(CallError::TimedOut)), "{answer:?}");
        assert_eq!(serving.await.unwrap(), 0);
    }
}

#[tokio::test]
async fn a_connection_that_never_stands_times_out() {
    // A full queue of connections lets no further one stand.
    let full = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    full.bind(&"127.0.20.1:0".parse::<std::net::SocketAddr>().unwrap().into()).unwrap();
    full.listen(0).unwrap();
    let to = full.local_addr().unwrap().as_socket().unwrap();
    let _first = TcpStream::connect(to).await.unwrap();
    let settings = ClientSettings { connect_timeout: Duration::from_millis(50), ..ClientSettings::default() };
    let client = Client::new(settings);
    assert!(matches!(call(&client, &to.to_string()).await, Err(CallError::TimedOut)));
}

#[tokio::test]
async fn a_way_round_is_taken_and_the_host_header_stays() {
    let (listener, to) = listen().await;
    let seen = tokio::spawn(async move {
        let mut stream = listener.accept().await.unwrap().0;
        let head = head(&mut stream).await;
        stream.write_all(OK.as_bytes()).await.unwrap();
        head
    });
    let via = Via::from([("nowhere.invalid:8848".into(), to.into())]);
    let client = Client::new(ClientSettings { via, ..ClientSettings::default() });
    assert_eq!(call(&client, "nowhere.invalid:8848").await.unwrap().body(), "ok");
    assert!(seen.await.unwrap().contains("\r\nhost: nowhere.invalid:8848\r\n"));
}

#[tokio::test]
async fn calls_come_from_the_own_address_where_this_host_has_it() {
    for (from, expected) in [([127, 0, 20, 9], [127, 0, 20, 9]), ([192, 0, 2, 1], [127, 0, 0, 1])] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let to = listener.local_addr().unwrap().to_string();
        let client = Client::new(ClientSettings { from: Some(from.into()), ..ClientSettings::default() });
        let calling = tokio::spawn(async move { call(&client, &to).await });
        let (mut stream, peer) = listener.accept().await.unwrap();
        head(&mut stream).await;
        stream.write_all(OK.as_bytes()).await.unwrap();
        assert_eq!(peer.ip(), IpAddr::from(expected));
        assert_eq!(calling.await.unwrap().unwrap().body(), "ok");
    }
}

#[tokio::test]
async fn names_are_resolved_and_addresses_that_are_none_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let mut stream = listener.accept().await.unwrap().0;
        head(&mut stream).await;
        stream.write_all(OK.as_bytes()).await.unwrap();
    });
    assert_eq!(call_anew(&format!("localhost:{port}")).await.unwrap().body(), "ok");
    for wrong in ["", "a b:1", "127.0.20.1:70000"] {
        assert!(matches!(call_anew(wrong).await, Err(CallError::Impossible(_))), "{wrong}");
    }
}

#[tokio::test]
async fn a_target_longer_than_a_uri_is_sent_whole() {
    let (listener, to) = listen().await;
    let seen = tokio::spawn(async move {
        let mut stream = listener.accept().await.unwrap().0;
        let head = head(&mut stream).await;
        let mut body = [0; 4];
        stream.read_exact(&mut body).await.unwrap();
        stream.write_all(OK.as_bytes()).await.unwrap();
        (head, body)
    });
    let target = format!("/nacos?a={}", "b".repeat(400_000));
    let request = Request::post("/nacos").header("x-y", "z").body(Bytes::from_static(b"body")).unwrap();
    let client = Client::new(ClientSettings::default());
    let answer = client.send_long(&to, request, &target, LIMIT, 64).await;
    assert_eq!(answer.unwrap().body(), "ok");
    let (head, body) = seen.await.unwrap();
    let expected = format!(
        "POST {target} HTTP/1.1\r\nx-y: z\r\nhost: {to}\r\nconnection: close\r\ncontent-length: 4\r\n\r\n"
    );
    assert!(head == expected && body == *b"body", "{}", &head[head.len() - 100..]);
}

#[tokio::test]
async fn a_long_call_that_fails_tells_how() {
    let client = Client::new(ClientSettings::default());
    let call = async |to: &str, target: &str| client.send_long(to, get(), target, LIMIT, 64).await;
    let to = scripted(vec![vec![""], vec!["HTTP/1.1 2"]]).await;
    assert!(matches!(call(&to, "/a").await, Err(CallError::Closed)));
    assert!(matches!(call(&to, "/a").await, Err(CallError::Broken(_))));
    assert!(matches!(call(&to, "/a").await, Err(CallError::Refused(_))));
    for wrong in ["", "a", "/a b", "/a\r\nX: y"] {
        assert!(matches!(call(&to, wrong).await, Err(CallError::Impossible(_))), "{wrong}");
    }
}
