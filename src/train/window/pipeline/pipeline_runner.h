#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "distributed/schedule/stage_link.h"
#include "train/pass/chain_run.h"
#include "train/pass/window_losses.h"
#include "train/window/pipeline/pipeline_stage.h"
#include "train/window/runner.h"

namespace accrue::train {

/// Runs a window's micro-batches through one stage of a pipeline, by its one-forward-one-backward
/// schedule (distributed::pipeline_schedule). All ranks run the same window; stages send
/// activations forward and their gradients backward. Each stage adds its own parameters' gradients,
/// and the window's reduction brings them to all ranks. The last stage alone counts the loss, its
/// weight and the micro-batches.
///
/// No stage can compute its sums again alone. So if a micro-batch is not finite on some stage, or
/// units of fixed-point sums were too coarse, all fill the window again, without the quarantined
/// ones; a stage finds in one run all that it can detect. Running out of memory ends the run. A
/// micro-batch is begun before its backward pass, as others run between its two passes.
class PipelineRunner final : public Runner {
 public:
  /// `options.reduce` belongs to the stage's group, and does not overlap.
  PipelineRunner(const RunnerContext& context, PipelineStage stage, RunnerOptions options);
  ~PipelineRunner() override;

  Opening prepare(const WindowRequest& request) override;
  /// Collective over all stages. WindowRun::seconds are those of this rank, including its waiting
  /// for other stages.
  Filled fill(WindowRequest& request, WindowRun& run) override;
  Filled closed(WindowRequest& request, WindowRun& run) override;
  void undo() override;

 private:
  /// A micro-batch between its forward and its backward pass.
  struct InFlight {
    InFlight(const PipelineStage& stage, MicroRef micro_ref, batch::MicroBatch made,
             const ForwardContext& of_micro, Recompute recompute);

    MicroRef ref;
    batch::MicroBatch micro;
    ForwardContext context;
    ChainRun chain;
    models::Activations output;  ///< the last stage's; the others pass theirs on
    std::size_t outputs = 0;     ///< how many tensors the output has
  };

  void begin(const WindowRequest& request);
  void run_passes(WindowRun& run);
  void run_forward(std::int64_t position);
  void run_backward(bool is_last);
  bool backward_from_loss(InFlight& flight);
  bool backward_from_next(InFlight& flight);
  void backward(InFlight& flight, models::Activations gradients);
  void send_to_previous_stage(bool is_quarantined, const models::Activations& gradients);
  void send(std::int64_t to, const std::vector<at::Tensor>& tensors, const char* what);
  std::vector<at::Tensor> receive(std::int64_t from, const char* what);
  bool settle(const MicroRef& ref, double loss_sum, double weight);
  std::vector<double> loss_sums() const;
  void quarantine(const MicroRef& ref, const char* reason);
  void quarantine_before(std::int64_t micro);
  MicroRef ref_of(std::int64_t micro) const;
  at::Tensor findings() const;
  bool learn_of_quarantined(const at::Tensor& found);
  bool all_settled(std::set<std::int64_t>& to_quarantine);

  RunnerContext context_;
  PipelineStage stage_;
  distributed::StageLink link_;
  RunnerOptions options_;
  WindowLosses losses_;

  std::vector<batch::Range> micro_batches_;  ///< of the window that runs
  std::vector<std::int64_t> tokens_;         ///< by micro-batch, including quarantined ones
  std::set<std::int64_t> quarantined_;       ///< micro-batches, by any stage
  std::vector<std::int64_t> kept_;           ///< micro-batches that run
  /// Micro-batches that this stage quarantined in this fill, and why.
  std::map<std::int64_t, std::string> quarantined_here_;
  std::vector<batch::UnreadableSample> unreadable_;  ///< samples of this fill
  std::vector<int> units_;  ///< fixed-point sums' units before the window's first fill
  std::deque<InFlight> in_flight_;
  std::int64_t in_ledger_ = 0;  ///< micro-batches of the window
  bool audits_ = false;         ///< whether it checks the sums after every micro-batch
  double waiting_seconds_ = 0;  ///< in this fill
};

}  // namespace accrue::train
