//! Detects RSA keys with the ROCA weakness (CVE-2017-15361), whose private key follows from the public one. Their
//! modulus reveals them: modulo each small prime it is a power of 65537.

/// With this many primes, a random key passes the test once in a hundred million.
const SMALL_PRIMES: [u32; 38] = [
    3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97,
    101, 103, 107, 109, 113, 127, 131, 137, 139, 149, 151, 157, 163, 167,
];

/// Whether a big-endian modulus has the weakness.
pub(super) fn is_weak(modulus: &[u8]) -> bool {
    SMALL_PRIMES.iter().all(|prime| is_power_of_65537(big_endian_modulo(modulus, *prime), *prime))
}

fn big_endian_modulo(number: &[u8], prime: u32) -> u32 {
    number.iter().fold(0, |rest, byte| (rest * 256 + u32::from(*byte)) % prime)
}

fn is_power_of_65537(number: u32, prime: u32) -> bool {
    let mut power = 1;
    for _ in 0..prime {
        if power == number {
            return true;
        }
        power = power * (65537 % prime) % prime;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signer::RSA;

    #[test]
    fn a_weak_key_is_detected_by_its_modulus() {
        // Powers of 65537 themselves: 65537² and 65537³.
        assert!(is_weak(&(65537_u64 * 65537).to_be_bytes()));
        assert!(is_weak(&(65537_u64 * 65537 * 65537).to_be_bytes()));
        assert!(!is_weak(&(65537_u64 * 65537 + 2).to_be_bytes()));
        assert!(!is_weak(&RSA.modulus()));
    }
}
