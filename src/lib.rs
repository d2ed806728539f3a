//! Nacre: a naming server that speaks the HTTP API of Nacos 1.x.
