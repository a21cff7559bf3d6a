//! Frames, streams and the key schedule: no I/O, no DataFusion
