//! The engine process: sessions, tasks, sealed frames over a socket
