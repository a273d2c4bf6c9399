#include "train/plan/rank_transfers.h"

#include <algorithm>

namespace accrue::train {
namespace {

/// The time of an exchange in which each rank sends so much within its node, and each node so much
/// to others. Both happen at the same time.
double exchange_seconds(double within_node, double between_nodes, const RankMachines& machines) {
  const double within = machines.ranks_of_a_node() > 1 ? within_node / machines.node_link : 0;
  const double between = machines.nodes > 1 ? between_nodes / machines.link : 0;
  return std::max(within, between);
}

/// The share of the others: (n - 1) / n.
double share_of_others(const RankMachines& machines) {
  const auto ranks = static_cast<double>(machines.ranks);
  return (ranks - 1) / ranks;
}

}  // namespace

Transfer to_neighbour(double bytes, const RankMachines& machines) {
  return {.bytes = bytes, .seconds = exchange_seconds(bytes, bytes, machines)};
}

Transfer all_gather(double bytes, const RankMachines& machines) {
  return to_neighbour(share_of_others(machines) * bytes, machines);
}

Transfer all_reduce(double bytes, const RankMachines& machines) {
  return to_neighbour(2 * share_of_others(machines) * bytes, machines);
}

Transfer to_each_other(double bytes, const RankMachines& machines) {
  const auto ranks = static_cast<double>(machines.ranks);
  const auto of_a_node = static_cast<double>(machines.ranks_of_a_node());
  const double part = bytes / ranks;
  return {.bytes = share_of_others(machines) * bytes,
          .seconds = exchange_seconds((of_a_node - 1) * part,
                                      of_a_node * (ranks - of_a_node) * part, machines)};
}

}  // namespace accrue::train
