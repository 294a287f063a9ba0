"""Where the land of the Earth is, in squares of one degree: enough to notice that longitude and latitude are exchanged.

A square counts as land where it touches any. Made from Natural Earth 1:110m land (public domain) by
``dtoss/export/land.py``, where the outline itself is.
"""

from __future__ import annotations

import base64
import zlib
from functools import cache

import numpy as np
from numpy.typing import NDArray

FEWEST = 20
"""Positions below which nothing can be said."""
_SQUARES = (
    "c-rlmPj4MH5Wu|{;vCv+Z-Dxg73zU&P6Vl;%LhSfBt8Iv9;if!&8e44T)Bmh!KvM<hhC7%ky~7X1cyr5Hi+ja?izdl*yDf8dmt{TmY%e4_qX2hcs"
    "w&6EA_u`4OtmQ9Mvncx~&Rx%@*FvdA2hh16tC1isfKo*t?)#{7oKKOvAoZl+DUayuVwB&h@;3edXXe%^}d2n4_D4HkY+iPe$?W0HgA7zjU9f<`g~"
    "f?T(hGza+Cl_k{k+^s;+?oQC_}NBB)U#;4&F0$5I0?|jC39X*N1H?_Cm%ft-1sWU?8=D)4`W@VN|())+a5EiHxM#k`-|96n;!wrOXViuJRTD=t<y"
    ">9<~E7wtTy$(#-8nD96I`A5DsCBfVBAI8tr1-yr=fs#*#;rilvpv`Az?DCI+Ga@-t!66nFhjwNQJFVLh6=x{dKN}2!*A%{kq_r*MMa9PRZbm+nXl"
    "Dh{mlbk?HMsRD$Nrfz&3nAr4}#s6a7tpQcCCGv4S$Ngn*^8=1+hH7D`01s)rj3a{#MEoXEg92XlMb{yp4U#fX0flO#+WT(1HP3rjm=Sy)<F6)l8C"
    "0-k0ig4-0#9V{Ts1EcHjwl*WMFdlL*o`n^F(Ev9wEbMcaP*iR#DcIN!li<EF^o_vyA^c2&`R-vB<T<0F4J_QUQQaXz*Ra3dec1U4B@e@F1{%46w;"
    "kNB0q=@~P#GAcrv|>_p3KA4Go2!aiOtpn_+5tH;~RO{v$G41&iNu*RW@6PaNV_J$@W%)O_oU%3k<qW!$b>zL!CA$m`y6T3msiY@2g9cf>8+X;bT4"
    "Dixe!a$|uzw)enx82;s`DVgeR_S3l6cd?y7v#Y`3|=m|cHgR|=nz(q?>uJa_!!DJ3|iCd+<OGMECZbplv&wow?bGJ1k%Dza%ZGJ6=v4czJvC1~N6"
    "Tp+4w>WiL+-?caz+)<5H&dHv(c-pA!q4HZP4;^ly~B8%=z4b)8H3&8CkQi?l4BAX!V=;8=u@5-nfUM)y0ag{Y=ps1O?!V_vE3$-U@7Enc&h=fo41"
    "=p&a~~rkIh_b>6)ueJ|V8$rgeZz7H2lhTVDMDHLR0~GR{jw_)_1{D|=V5Mcnb9$QR>Wn;q#)C)=@ows@06_%~%_&@kF^7@N`nLIYT8l{4CL2N#20"
    ">Q>;+6XR(QbJYRIRj?60B#k$~6J-R}D-cX}Iqj>yK4t-|hB}GdwD54XL3z>n+ITp@>VBY%4Xvk_K5P<$;p)f8XK)*CN2{YsVz*>M_yaFobYq=Hw?"
    "D$IpoYKn;J)u<83Y+G@dXTVy1h~=Ee6%EAHYc4TT%wrw@zD_9b}3^wlj_bgU<9^c-dGD<n3V`hiw7i7Xp;PBx#~Z+yU$N%87!AD4Zzg)jPCR0{Eu"
    "N#LNCW9omNQo|man53bJC&gW2dd({lwQt_2$CVh9(^Bi8S57lB*UYg412>&XICQvhkuT&6Twh34`m<~odDLMgnRySA83`#e`;-?w7Tq;stIDI@4F"
    "??XPexg`)4k~*xg5mZ+J)r;=hmq>w_CTE}AcowJdsg43t=|d=;R_X1q-{G0%-M`13yaV~_1A{{`i*)Oc)XXW6aNq<mKMI5DiKf1xp+9b`Vp?>3_O"
    "1JY=S=$G2HKmj6Gpn<>g}(C`0)B!Fx-qswb00m%QYmn;GD0f9zQl)A}Y&DQMup3N==#2OrDvWTS+Kur?Ys)`Nxz`W-oC9#jT}bG|qld{H@yMY_9o"
    "wRh1ZR=<Gx&<RergQ{kPBf~p3ao>%h>OMyGnDR@Sn#CLLguwiz*`Cd)Uf9dCwrchMtS{oH&jpUb3BXeQUTC=N^5+7s-Rq;I7QLU-E<v0DUD8g&d`"
    "tRAGGHEop`Si9v7w!o?5p^!hS<ZR<ufzmqvh!lUYthSaEtSNJROr`kYRx^m)a(E@JFw-byB@t7_lDDh;s-RV~a6Ic(DE#%0y(hKk2J^02U3xc3mx"
    "dXI{d1s#ntG<e$A7)T8r0v{l}jMTf@I9#OyyOx2H0%xa}D4xyU$K2qN&mmoR6Gx&kR3tIhL*8Lz#Se&Cvt&gsBacE%^U!yI5i%{Ld59(=k82HFKx"
    "1x&@;_dpf&*Vli3YSk*sdJagS_AKOX@f$l3|o0w&TTbT#fxNZoMcY3?xw5!`GcfXHCjtsC?#H>yR6jy0(2k5{{"
)
"""360 x 180 bits, row by row from the south west: zlib, base85."""


@cache
def land_squares() -> NDArray[np.bool_]:
    """Return which squares of one degree touch land, bool (180, 360), the one at -180, -90 first."""
    packed = np.frombuffer(zlib.decompress(base64.b85decode(_SQUARES)), np.uint8)
    return np.unpackbits(packed).view(np.bool_).reshape(180, 360)


def look_swapped(lon: NDArray[np.float64], lat: NDArray[np.float64]) -> str | None:
    """Return what to say where positions would lie on land only with their axes exchanged, else None.

    A latitude above 90 gives a swap away; New York's (-74, 40.7) does not, but leads to Antarctica. Ships in some seas
    look the same: it is a hint.

    ``lon``, ``lat``: degrees, float64 (n,), legal ones; some hundreds are enough, fewer than 20 say nothing.

    Examples
    --------
    >>> look_swapped(np.full(20, 40.7), np.full(20, -74.0))
    'lon and lat look swapped: 0% of 20 positions lie on land as read, 100% with the axes exchanged'
    """
    if len(lon) < FEWEST:
        return None
    # Antarctica is where America's longitudes lead, and few objects are there
    as_read = (_on_land(lon, lat) & (lat > -60.0)).mean()
    exchanged = (_on_land(lat, lon) & (lon > -60.0) & (np.abs(lon) <= 90.0)).mean()
    if exchanged < 0.5 or as_read > 0.05:
        return None
    return (
        f"lon and lat look swapped: {as_read:.0%} of {len(lon)} positions lie on land as read, "
        f"{exchanged:.0%} with the axes exchanged"
    )


def _on_land(lon: NDArray[np.float64], lat: NDArray[np.float64]) -> NDArray[np.bool_]:
    column = np.floor(np.clip(lon, -180.0, 180.0)).astype(np.int64) + 180
    row = np.floor(np.clip(lat, -90.0, 90.0)).astype(np.int64) + 90
    return land_squares()[np.minimum(row, 179), column % 360]
