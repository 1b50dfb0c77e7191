"""Registrable domains by the Public Suffix List, which comes with the package: no network."""

from __future__ import annotations

from functools import lru_cache

from publicsuffixlist import PublicSuffixList


@lru_cache(maxsize=1)
def _suffixes() -> PublicSuffixList:
    # Private suffixes (github.io, blogspot.com) count: their customers are strangers to each other.
    return PublicSuffixList()


def organisational_domain(domain: str) -> str | None:
    """Return the registrable domain of a host name in A-label form; None for a public suffix."""
    return _suffixes().privatesuffix(domain)


@lru_cache(maxsize=1)
def _registries() -> PublicSuffixList:
    return PublicSuffixList(only_icann=True)


def registered_domain(domain: str) -> str | None:
    """Return the domain that a registry sold, as `organisational_domain` does: all of `duckdns.org`
    and `github.io`, where anybody has a name for nothing, is one."""
    return _registries().privatesuffix(domain)
