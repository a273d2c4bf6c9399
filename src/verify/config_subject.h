#pragma once

#include <functional>
#include <memory>

#include "accrue/accum/window.h"
#include "accrue/models/model.h"
#include "data/loader.h"
#include "train/workload/workload.h"
#include "verify/subject.h"

namespace accrue::proof {

/// A config's model on the samples of its run's first window. Parts are of draw ordinals.
class ConfigSubject : public Subject {
 public:
  /// `work` is kept by reference. With `model`, that one stands for the config's (the twin in fp64,
  /// whose gradients are added up in fp64).
  explicit ConfigSubject(const train::Workload& work,
                         std::unique_ptr<models::Model> twin = nullptr);

  const NamedParameters& parameters() const override { return trained_; }
  std::int64_t samples() const override { return window_.size(); }
  batch::Range window() const { return window_; }

  Gradients one_pass(batch::Range part, const Conditions& conditions) override;
  Gradients in_passes(const Parts& parts, const Conditions& conditions) override;
  /// Accumulates the way training does: by model.batchnorm and precision.accumulate.
  Gradients accumulated(const Parts& parts, const Conditions& conditions) override;
  std::vector<std::string> batch_norms() const override;
  std::vector<std::string> dropouts() const override;
  bool draws_in_order() const override { return !dropouts().empty(); }
  bool can(Mode mode) const override { return mode != Mode::batch_norms_frozen; }
  bool buffers_moved() const override { return buffers_moved_; }
  std::unique_ptr<Subject> in_double() override { return twin_in_double(); }
  /// Null for a config that computes in fp64.
  std::unique_ptr<ConfigSubject> twin_in_double();

  /// Parameters after an optimizer step for each of `windows`, from those now; they and the buffers
  /// are put back. Window i has the samples and the randomness of the run's window i.
  std::vector<at::Tensor> after_steps(const std::vector<Parts>& windows,
                                      const Conditions& conditions = {});

  /// Told after each forward and backward pass of a part.
  void set_on_part(std::function<void()> told) { on_part_ = std::move(told); }

 private:
  Gradients run(const Parts& parts, const Conditions& conditions, accum::Accumulation accumulation);
  void fill(accum::Window& window, const Parts& parts, std::int64_t index,
            const Conditions& conditions, Gradients& result);
  void fill_exactly(accum::Window& window, const Parts& parts, std::int64_t index,
                    const Conditions& conditions, Gradients& result);
  std::vector<std::string> foreign(models::ForeignLayer::Kind kind) const;

  const train::Workload& work_;
  std::unique_ptr<models::Model> twin_;
  models::Model& model_;
  std::unique_ptr<data::Loader> loader_;
  batch::Range window_;
  NamedParameters trained_;
  bool exact_ = false;
  bool buffers_moved_ = false;
  std::function<void()> on_part_;
};

}  // namespace accrue::proof
