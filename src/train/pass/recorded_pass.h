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

/// Runs micro-batches as forward_backward() does. If an earlier one was the same work and was
/// recorded, the device repeats the recording, which takes one launch. The work is the same for a
/// model that supports it (Trainable::prepare_recorded_pass), ids and labels of the same shape, a
/// sample in each row, losses left on the device, the same options, and slots equally fresh.
///
/// The model checks ids and labels: a micro-batch with any outside the range seen so far runs
/// without recording. Of the others, the first of a kind runs, so that all is allocated, and the
/// second is recorded. Gradients have the same bits. Recordings share memory and keep it. If
/// recording fails, everything runs without it from then on.
class RecordedPass {
 public:
  /// `model` is on `device`; check_recorded_pass() has passed.
  RecordedPass(models::Trainable& model, c10::Device device)
      : model_(model), device_(device), parameters_(model.parameters()) {}

  PassResult run(const batch::MicroBatch& micro, const ForwardContext& context,
                 const PassOptions& options);

  /// Frees the recordings' memory, and stops recording, for this reason.
  void stop(const std::string& reason);

  std::int64_t repeated() const { return repeated_; }  ///< micro-batches that took one launch
  /// The recordings since the last call, or why recording stopped; empty if nothing is new.
  std::string take_news() { return std::exchange(news_, {}); }

 private:
  /// The properties by which two micro-batches are the same work.
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
    at::Tensor inputs, targets;               ///< on the device, read by the work
    PassResult result;                        ///< as the work leaves it
    std::vector<std::int64_t> contributions;  ///< to the slots, by parameter
    bool has_run = false;
    std::int64_t last_used = 0;
  };
  /// The smallest and the largest number that the model has taken.
  struct Range {
    std::int64_t least = 0, largest = -1;
    bool holds(const at::Tensor& numbers) const;
    void extend(const at::Tensor& numbers);
  };

  bool can_repeat(const batch::MicroBatch& micro, const ForwardContext& context,
                  const PassOptions& options) const;
  bool knows(const batch::MicroBatch& micro) const;
  Kind kind_of(const batch::MicroBatch& micro, const PassOptions& options);
  Recorded& find(Kind kind);
  PassResult run_unrecorded(const batch::MicroBatch& micro, const ForwardContext& context,
                            const PassOptions& options);
  PassResult run_on_device_inputs(const Recorded& recorded, const batch::MicroBatch& micro,
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
