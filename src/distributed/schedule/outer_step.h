#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

#include "accrue/core/stored_tensor.h"
#include "distributed/schedule/outer_schedule.h"

namespace accrue::distributed {

/// The outer steps of ranks that train separately, so that they communicate once a round. The outer
/// gradient is the round's start less the mean of the ranks' parameters; with velocity v
///
///     v <- momentum v + gradient;  start <- start - lr (gradient + momentum v)
///
/// as torch.optim.SGD's Nesterov does. lr 1 and momentum 0 set every rank to the mean of the
/// parameters (local SGD: Stich, arXiv:1805.09767); DiLoCo (Douillard et al., arXiv:2311.08105)
/// takes lr 0.7 and momentum 0.9. The inner optimizer's state stays with its rank.
///
/// The caller forms the mean: plain, or weighted by how much ranks trained on (McMahan et al.,
/// arXiv:1602.05629) if ranks have unequal work. The difference, small compared with the
/// parameters, is also what may be compressed.
///
/// Each part of the parameters takes its steps separately: its round begins and ends when it is
/// sent. This rank keeps all changes since then, while the mean was formed:
///
///     parameters <- start + (parameters - parameters when sent)
///
/// so they are part of the next difference, and each change of each rank enters one mean.
class OuterStep {
 public:
  /// The first round starts at the present parameters, which must be the same on every rank. They
  /// are kept by reference. Throws a usage Error as OuterSchedule and divide_in_parts() do, and if
  /// there is no parameter, or parameters are not all fp32 or all fp64.
  OuterStep(NamedParameters parameters, const OuterOptions& options);

  const std::vector<OuterPart>& parts() const { return parts_; }

  /// This rank's parameters of a part: one new flat tensor, in order of the parameters.
  at::Tensor parameters(std::size_t part = 0) const;
  at::Tensor all_parameters() const { return flat(whole()); }
  /// The round's start less `parameters`, those of a part: a new flat tensor.
  at::Tensor difference(const at::Tensor& parameters, std::size_t part = 0) const;
  at::Tensor difference() const { return difference(parameters()); }
  /// Takes a part's outer step, from which its next round starts. The start has the same bits on
  /// every rank that has the same `mean_difference`; so have the parameters, which are written in
  /// place, without `sent`. With it, the part's parameters when its difference was taken, the
  /// changes that this rank made since are kept. Throws a usage Error if `mean_difference` has
  /// another shape or dtype, a runtime Error if it is not finite; nothing is changed then.
  void step(const at::Tensor& mean_difference, std::size_t part = 0, const at::Tensor& sent = {});

  /// Writes the start, which all ranks share, into the parameters, and returns their former values:
  /// all parts, flat.
  at::Tensor put_start_in_place();
  /// Writes the parameters of all parts, flat as put_start_in_place() returned them.
  void put_back(const at::Tensor& parameters);

  /// "start" and, if there is momentum, "velocity": flat, in this object's own memory, and the same
  /// on every rank if no exchange is in progress. Every resumption needs them; they do not depend
  /// on the number of parts.
  NamedParameters state() const;
  /// Copies from what state() returned. Throws a usage Error that names the first missing, extra or
  /// misshapen tensor; nothing is changed then.
  void load_state(const StoredTensors& state);
  void load_state(const NamedParameters& state) { load_state(stored(state)); }

 private:
  at::Tensor flat(const OuterPart& part) const;
  void write(const at::Tensor& flat, const OuterPart& part) const;
  OuterPart whole() const { return {0, parameters_.size(), 0, start_.numel()}; }

  NamedParameters parameters_;
  OuterOptions options_;
  std::vector<OuterPart> parts_;
  at::Tensor start_;
  at::Tensor velocity_;  ///< undefined without momentum
};

}  // namespace accrue::distributed
