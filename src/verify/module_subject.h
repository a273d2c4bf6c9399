#pragma once

#include "accrue/core/user_model.h"
#include "accrue/verify/verify.h"
#include "support/snapshot.h"
#include "verify/subject.h"

namespace accrue::proof {

/// Keeps buffers, `.grad` and the random generators of the CPU and the parameters' devices, and
/// restores them.
class KeepState {
 public:
  KeepState(const NamedParameters& parameters, const NamedParameters& buffers)
      : grads_(GradSnapshot(parameters)),
        buffers_(TensorSnapshot(buffers)),
        generators_(GeneratorSnapshot(devices_of(detail::tensors_of(parameters)))) {}
  bool buffers_moved() const { return buffers_.snapshot().moved(); }

 private:
  Keep<GradSnapshot> grads_;
  Keep<TensorSnapshot> buffers_;
  Keep<GeneratorSnapshot> generators_;
};

void seed_generator(std::uint64_t seed);

/// A user's model, loss and batch. `model` must outlive it.
class ModuleSubject : public Subject {
 public:
  explicit ModuleSubject(const detail::VerifiedModel& model);

  const NamedParameters& parameters() const override { return trained_; }
  std::int64_t samples() const override { return model_.samples; }
  Gradients one_pass(batch::Range part, const Conditions& conditions) override;
  Gradients accumulated(const Parts& parts, const Conditions& conditions) override;
  std::vector<std::string> batch_norms() const override;
  bool can(Mode mode) const override;
  bool buffers_moved() const override { return buffers_moved_; }
  std::string low_precision() const override { return low_precision_; }
  std::unique_ptr<Subject> in_double() override;

 private:
  const detail::VerifiedModel& model_;
  detail::RunSlice loss_;
  NamedParameters trained_;
  bool buffers_moved_ = false;
  std::string low_precision_;
};

}  // namespace accrue::proof
