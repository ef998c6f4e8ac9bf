//! Every task of the DSL that is supported, how data flows, what is caught, and where every bound is.

mod bounds;
mod flow;
mod tasks;
mod world;
