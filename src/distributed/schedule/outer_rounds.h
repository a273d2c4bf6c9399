#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "accrue/distributed/group.h"
#include "distributed/compress/compression.h"
#include "distributed/schedule/outer_step.h"

namespace accrue::distributed {

/// What one rank has when a round ends.
struct RoundShare {
  std::int64_t steps = 0;              ///< inner steps of the run so far: the same on every rank
  double weight = 0;                   ///< loss terms of this rank's steps in the round, >= 0
  std::vector<double> rank_sums = {};  ///< always as many on each rank
};

/// What the ranks' shares came to together.
struct RoundTotals {
  double weight = 0;
  std::vector<double> rank_sums;  ///< added up over ranks
  double reduce_seconds = 0;
  std::int64_t wire_bytes = 0;  ///< sent by this rank
};

/// Outer steps (outer_step.h) of the ranks of a group, with the mean difference weighted by what
/// each trained on: one row of numbers and one sum a round, through a Compressor where asked for.
/// A rank that had nothing to train on takes part with weight 0. A round without any weight ends
/// without a step. No rank steps unless all did their part; what a collective throws goes through.
class OuterRounds {
 public:
  /// All ranks make it alike, with parameters of the same values. A null `group` is one process.
  /// Throws a usage Error as OuterStep does, or where parameters are to be compressed and not fp32.
  OuterRounds(std::shared_ptr<Group> group, NamedParameters parameters, const OuterOptions& options,
              Compression compress = Compression::none);
  ~OuterRounds();

  bool ends_round(std::int64_t steps) const { return outer_.ends_round(steps); }
  /// Ends the round; all ranks call it. Throws a runtime Error on all of them where `steps` differ,
  /// or a rank's parameters are not finite; nothing is changed then.
  RoundTotals end(const RoundShare& share);

  /// OuterStep::state() under "outer.", in its own memory; with compression also
  /// Compressor::state() under "compression.", for which all ranks call it. To be called between
  /// rounds.
  NamedParameters state() const;
  /// All ranks call it. Throws a usage Error that names the first missing, extra or misshapen
  /// tensor.
  void load_state(const StoredTensors& state);

 private:
  RoundTotals totals_of(const RoundShare& share) const;
  at::Tensor mean_difference(double share_of_weight);

  std::shared_ptr<Group> group_;
  OuterStep outer_;
  std::unique_ptr<Compressor> compressor_;  ///< null: sums are in the parameters' precision
};

}  // namespace accrue::distributed
