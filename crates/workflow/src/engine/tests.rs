//! Every supported task of the DSL, the data flow, error handling, and every limit.

mod bounds;
mod flow;
mod tasks;
mod world;
