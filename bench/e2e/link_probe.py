#!/usr/bin/env python3
"""What a cable between two ranks gives to plain sockets, both ways at once: link_probe.py BYTES (RANK, MASTER_ADDR and
MASTER_PORT say who is who). Prints {"round_trip_ms": ..., "mbit": ...}, of the payload that this rank received."""
import json
import os
import socket
import statistics
import sys
import threading
import time

ROUND_TRIPS = 200
CHUNK = 1 << 18
CONNECT_SECONDS = 20


def connect() -> socket.socket:
    place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    if os.environ["RANK"] == "0":
        with socket.create_server(place) as server:
            return server.accept()[0]
    deadline = time.monotonic() + CONNECT_SECONDS
    while True:
        try:
            return socket.create_connection(place)
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def receive(peer: socket.socket, count: int) -> None:
    buffer = bytearray(CHUNK)
    while count > 0:
        received = peer.recv_into(buffer, min(count, CHUNK))
        if received == 0:
            sys.exit("error: the other end closed the connection")
        count -= received


def round_trip_ms(peer: socket.socket) -> float:
    """Rank 0's; rank 1 answers and sees its own waiting in between."""
    times = []
    for _ in range(ROUND_TRIPS):
        begin = time.perf_counter()
        if os.environ["RANK"] == "0":
            peer.sendall(b"?")
            receive(peer, 1)
        else:
            receive(peer, 1)
            peer.sendall(b"!")
        times.append(1000 * (time.perf_counter() - begin))
    return statistics.median(times)


def mbit(peer: socket.socket, count: int) -> float:
    sender = threading.Thread(target=peer.sendall, args=(bytes(count),))
    begin = time.perf_counter()
    sender.start()
    receive(peer, count)
    seconds = time.perf_counter() - begin
    sender.join()
    return 8e-6 * count / seconds


def main() -> None:
    with connect() as peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        print(json.dumps({"round_trip_ms": round_trip_ms(peer), "mbit": mbit(peer, int(sys.argv[1]))}))


if __name__ == "__main__":
    main()
