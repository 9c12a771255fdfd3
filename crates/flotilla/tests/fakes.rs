//! The whole command line on fakes: no root, no bundle, no machine. What a person or a script meets, and that every
//! command goes on after a kill at any call.

#[cfg(test)]
mod fakes {
    mod coverage;
    mod data;
    mod kills;
    mod kubectl;
    mod minikube;
    mod questions;
    mod refusals;
    mod results;
    mod scripts;
    mod sessions;
    mod warnings;
    mod world;
}
