#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "accrue/device/recording.h"
#include "accrue/kernels/grad_slot.h"
#include "train/pass/forward_backward.h"

namespace accrue::train {

/// Throws a usage Error if passes of `model`, which is on `device`, cannot be recorded.
void check_recorded_pass(models::Trainable& model, c10::Device device);

/// Runs micro-batches as forward_backward() does, and has the device repeat what it recorded of an
/// earlier one where that is the same work, which takes one launch: of a model that can
/// (Trainable::prepare_recorded_pass), ids and labels of the same shape, a sample in each row,
/// losses left on the device, the same options, and slots that are fresh where they were.
///
/// Checks of ids and labels are the model's: a micro-batch with ids or labels beyond those that it
/// took so far runs as always. Of the others, the first of a kind runs, so that all is in place,
/// and the second is recorded. Gradients have the same bits. What a recording makes keeps its
/// memory, which recordings share. If recording fails, all runs as always from then on.
class RecordedPass {
 public:
  /// `model` is on `device`; check_recorded_pass() has passed.
  RecordedPass(models::Trainable& model, c10::Device device)
      : model_(model), device_(device), parameters_(model.parameters()) {}

  PassResult run(const batch::MicroBatch& micro, const ForwardContext& context,
                 const PassOptions& options);

  /// Gives the recordings' memory back, and records nothing any more, for this reason.
  void stop(const std::string& reason);

  std::int64_t repeated() const { return repeated_; }  ///< micro-batches that took one launch
  /// What was recorded, or why nothing is any more, since the last call; empty: nothing new.
  std::string take_news() { return std::exchange(news_, {}); }

 private:
  /// What two micro-batches have in common where they are the same work.
  struct Kind {
    std::vector<std::int64_t> inputs, targets;  ///< their sizes
    std::vector<double> factors;
    std::size_t reference = 0;
    double loss_scale = 1, weighting = 1;
    Recompute recompute = Recompute::none;
    std::vector<bool> fresh;          ///< of the slots, by parameter
    std::vector<const void*> memory;  ///< of parameters, sums and prepared operands
    bool operator==(const Kind&) const = default;
  };
  struct Recorded {
    Kind kind;
    std::unique_ptr<device::Recording> work;  ///< null: it was not recorded yet
    at::Tensor inputs, targets;               ///< on the device, what the work reads
    PassResult result;                        ///< as the work leaves it
    std::vector<std::int64_t> contributions;  ///< to the slots, by parameter
    bool has_run = false;
    std::int64_t last_used = 0;
  };
  /// The least and the largest number that the model took.
  struct Range {
    std::int64_t least = 0, largest = -1;
    bool holds(const at::Tensor& numbers) const;
    void take_in(const at::Tensor& numbers);
  };

  bool can_repeat(const batch::MicroBatch& micro, const ForwardContext& context,
                  const PassOptions& options) const;
  bool knows(const batch::MicroBatch& micro) const;
  Kind kind_of(const batch::MicroBatch& micro, const PassOptions& options);
  Recorded& find(Kind kind);
  PassResult run_as_always(const batch::MicroBatch& micro, const ForwardContext& context,
                           const PassOptions& options);
  PassResult run_there(const Recorded& recorded, const batch::MicroBatch& micro,
                       const ForwardContext& context, const PassOptions& options);
  PassResult counted(PassResult result, const batch::MicroBatch& micro,
                     const PassOptions& options) const;
  bool record(Recorded& recorded, const batch::MicroBatch& micro, const ForwardContext& context,
              const PassOptions& options);
  PassResult repeat(Recorded& recorded, const batch::MicroBatch& micro, const PassOptions& options);
  const device::Recording* any_work() const;

  models::Trainable& model_;
  c10::Device device_;
  NamedParameters parameters_;
  Range ids_, labels_;
  std::vector<Recorded> recorded_;
  std::int64_t used_ = 0, repeated_ = 0;
  std::optional<c10::Stream> stream_;  ///< of recordings, from the first one on
  bool has_stopped_ = false;
  std::string news_;
};

}  // namespace accrue::train
