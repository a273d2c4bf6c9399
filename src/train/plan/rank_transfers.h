#pragma once

#include <cstdint>

#include "memory/disk_rates.h"

namespace accrue::train {

/// The ranks of a run and their machines, which need not exist.
struct RankMachines {
  std::int64_t ranks = 2;
  std::int64_t nodes = 2;         ///< machines, each with as many of the ranks, in order of rank
  std::int64_t tensor_bytes = 0;  ///< the memory of one rank for tensors
  double flops = 0;               ///< operations that one rank does in a second
  /// Bytes a second that a node sends to other nodes, and receives at the same time.
  double link = 0;
  /// The same from a rank to the others of its node. Not used if each rank has a node of its own.
  double node_link = 0;
  /// A rank's own disk for offloaded state; 0 if there is none.
  memory::DiskRates disk = {};

  std::int64_t ranks_of_a_node() const { return ranks / nodes; }
};

/// An exchange between ranks.
struct Transfer {
  double bytes = 0;    ///< sent by a rank, or by the one that sends most
  double seconds = 0;  ///< without computing beside it, and without delays of single messages

  Transfer& operator+=(const Transfer& more) {
    bytes += more.bytes;
    seconds += more.seconds;
    return *this;
  }
  friend Transfer operator+(Transfer a, const Transfer& b) { return a += b; }
  friend Transfer operator*(double times, const Transfer& one) {
    return {.bytes = times * one.bytes, .seconds = times * one.seconds};
  }
};

// Exchanges as accrue's groups make them (docs/guide/plan.md has the formulas). Pure functions;
// `machines` has two ranks or more, divided evenly among its nodes.

/// The sum of `bytes` over all ranks, on all of them: a ring, in which each rank sends 2 (n - 1) /
/// n of the bytes to the next one, and one rank of each node to another node.
Transfer all_reduce(double bytes, const RankMachines& machines);
/// `bytes`, a part of which each rank sends to each other one: sums to their owners, or parts of
/// parameters that are divided. So all ranks of a node send to those of other nodes.
Transfer to_each_other(double bytes, const RankMachines& machines);
/// `bytes`, of which each rank has a part, on all of them: a ring.
Transfer all_gather(double bytes, const RankMachines& machines);
/// `bytes` from a rank to the next one.
Transfer to_neighbour(double bytes, const RankMachines& machines);

}  // namespace accrue::train
