//! Blocks of addresses: `10.0.0.0/8`, `fd00::/8`, or one address.
//!
//! The crate `ipnet` was tried: it takes `010.0.0.0/8`, which other programs read as octal, and no address without a length.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A block of IP addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    address: IpAddr,
    prefix: u32,
}

/// A text that is no block of addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an address or a block of addresses; write it as in 192.168.0.0/16, 10.1.2.3 or fd00::/8")]
pub struct BadCidr(String);

impl Cidr {
    /// Whether the block has this address. Blocks of one family have no address of the other.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(block), IpAddr::V4(address)) => {
                let differing = u32::from(block) ^ u32::from(address);
                differing.checked_shr(32 - self.prefix).unwrap_or(0) == 0
            }
            (IpAddr::V6(block), IpAddr::V6(address)) => {
                let differing = u128::from(block) ^ u128::from(address);
                differing.checked_shr(128 - self.prefix).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

impl FromStr for Cidr {
    type Err = BadCidr;

    fn from_str(text: &str) -> Result<Self, BadCidr> {
        let bad = || BadCidr(text.to_owned());
        let (address, prefix) = text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
        let address: IpAddr = address.parse().map_err(|_| bad())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            None => most,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits.parse().map_err(|_| bad())?,
            Some(_) => return Err(bad()),
        };
        if prefix > most { Err(bad()) } else { Ok(Cidr { address, prefix }) }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks() {
        for (block, address, inside) in [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("10.1.2.3/8", "10.9.9.9", true),
            ("10.1.2.3", "10.1.2.3", true),
            ("10.1.2.3", "10.1.2.4", false),
            ("0.0.0.0/0", "1.2.3.4", true),
            ("0.0.0.0/0", "::1", false),
            ("::/0", "::1", true),
            ("fd00::/8", "fdff::1", true),
            ("fd00::/8", "fe00::1", false),
            ("::1/128", "::1", true),
        ] {
            assert_eq!(block.parse::<Cidr>().unwrap().contains(address.parse().unwrap()), inside, "{block} {address}");
        }
        assert_eq!("::1".parse::<Cidr>().unwrap().to_string(), "::1/128");
    }

    #[test]
    fn nonsense() {
        for text in
            ["", "/8", "10.0.0.0/", "10.0.0.0/33", "::/129", "10.0.0.0/+8", "10.0.0/8", "localhost", "1.2.3.4/8/8"]
        {
            let error = text.parse::<Cidr>().unwrap_err().to_string();
            assert!(error.contains("192.168.0.0/16"), "{error}");
        }
    }
}
