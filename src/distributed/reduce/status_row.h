#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "distributed/reduce/deferred_reduce.h"

namespace accrue::distributed {

/// A rank's statement about its share of a window.
struct RankStatus {
  std::int64_t window = 0;  ///< the window's index
  double weight = 0;
  double loss_sum = 0;
  std::int64_t micro_batches = 0;
  std::int64_t quarantined = 0;
  bool is_lost = false;
  bool is_void = false;   ///< its sums changed after their reduction began
  std::int64_t left = 0;  ///< DeferredReduce::set_left()
  std::vector<double> rank_sums = {};
  std::vector<double> figures = {};  ///< DeferredReduce::set_figures()
  std::vector<double> loss_sums = {};
  std::vector<std::int64_t> contributions = {};  ///< by slot
  std::vector<int> units = {};  ///< by slot, for fixed-point sums; empty for others
};

/// These write a status as a row of fp64 numbers, each exact, and read it, among ranks of the same
/// model. from_row() throws a runtime Error if a count is not a whole number.
at::Tensor to_row(const RankStatus& status);
RankStatus from_row(const at::Tensor& row, const RankStatus& like);

/// The result of all ranks' rows.
struct Agreed {
  enum class Verdict { whole, again, dropped, unfinished } verdict = Verdict::whole;
  std::string reason = {};
  WindowTotals totals = {};                      ///< weights and losses, added in order of rank
  std::vector<double> loss_sums = {};            ///< added up over all ranks
  std::vector<std::int64_t> contributions = {};  ///< by slot, added up over all ranks
  std::vector<int> units = {};                   ///< the largest, by slot
};
/// Throws a runtime Error, the same for the same rows, if they are not all of one window.
Agreed agree(const std::vector<RankStatus>& ranks);

}  // namespace accrue::distributed
