// One rank of a run of the tests: `lying_rank CONFIG.toml LIE`, with a launcher's variables. LIE is
// the subject of its lie: nothing, weight, gradient (which is not finite), both from some
// micro-batch on, or shapes.

#include <ATen/ATen.h>

#include "accrue/distributed/group.h"
#include "accrue/models/gpt2.h"
#include "accrue/train/trainer.h"
#include "support/exit_status.h"
#include "train/ranks/meeting.h"

namespace accrue::train {
namespace {

constexpr int kHonestMicroBatches = 20;

/// A number that is 0, but whose gradient is not.
at::Tensor nothing_of(const at::Tensor& output) { return output.mul(0).sum().sqrt(); }

/// A model that reports something else than it computed.
class LyingModel final : public models::Gpt2 {
 public:
  LyingModel(const models::Gpt2Options& options, std::string lie)
      : Gpt2(options), lie_(std::move(lie)) {}

  std::vector<models::LossHead> losses() override {
    std::vector<models::LossHead> heads = Gpt2::losses();
    heads.front().forward = [this, honest = heads.front().forward](
                                const models::Activations& output, const batch::MicroBatch& micro,
                                const ForwardContext& context, double scale) {
      const bool lies = ++micro_batches_ > kHonestMicroBatches;
      const at::Tensor nothing = nothing_of(output.at(0));
      Loss loss = honest(output, micro, context, scale);
      if (lies && lie_ == "weight") loss.weight *= 2;
      if (lies && lie_ == "gradient") loss.sum = loss.sum + nothing;
      return loss;
    };
    return heads;
  }

 private:
  std::string lie_;
  int micro_batches_ = 0;
};

int run(const std::string& file, const std::string& lie) {
  return accrue::testing::exit_status_of([&] {
    const Config config = load_config(file, {});
    const auto group = distributed::join(group_options(config));
    const models::Gpt2Options options{.layers = 1,
                                      .heads = 1,
                                      .width = lie == "shapes" ? 24 : 16,
                                      .context = *config.model.context,
                                      .vocab = 256};
    Trainer trainer(config, std::make_unique<LyingModel>(options, lie), nullptr, nullptr, group);
    trainer.run();
    return 0;
  });
}

}  // namespace
}  // namespace accrue::train

int main(int count, char** words) {
  return count != 3 ? 127 : accrue::train::run(words[1], words[2]);
}
