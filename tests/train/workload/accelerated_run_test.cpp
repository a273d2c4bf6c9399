// Runs of models that are not accrue's own, and whether accrue replaces their operations.
#include <gmock/gmock.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>

#include <nlohmann/json.hpp>

#include "accrue/core/error.h"
#include "core/atomic_file.h"
#include "train/checkpoint/train_state.h"
#include "train/foreign_net.h"
#include "train/recorder.h"

namespace accrue::train {
namespace {

using ::testing::AllOf;
using testing::DriftingNetImpl;
using testing::FaultyNetImpl;
using testing::ForeignNetImpl;
using ::testing::HasSubstr;
using testing::SharedNet;

class AcceleratedRun : public testing::ForeignRun {
 protected:
  /// Trains, and returns the message about the decision.
  static std::string train(const Config& c, const SharedNet& net, const RunOptions& options = {}) {
    std::filesystem::path out = c.run.out;
    if (!options.resume) std::filesystem::remove_all(out);
    Trainer trainer(c, net, testing::foreign_loss, testing::foreign_data());
    const auto recorder = std::make_shared<testing::Recorder>();
    trainer.add_observer(recorder);
    trainer.run(options);
    for (const Event& event : recorder->events)
      if (event.name == "accelerate") return event.reason;
    return "nothing";
  }
  /// Trains `net` in micro-batches of 5 without replacements.
  void train_as_written(const SharedNet& net) const {
    Config c = foreign_config(5, 5, "as_written");
    c.model.accelerate = Accelerate::off;
    EXPECT_THAT(train(c, net), HasSubstr("as model.accelerate says"));
  }
};

TEST_F(AcceleratedRun, SaysWhatItDecidedAndWhy) {
  EXPECT_THAT(train(foreign_config(2, 5), std::make_shared<ForeignNetImpl>()),
              AllOf(HasSubstr("accrue does 2 products, 1 GELU and 1 dropout of a pass"),
                    HasSubstr("loss and gradients of the first 3 samples are libtorch's")));
  std::ifstream metrics(foreign_config(2, 5).run.out + "/metrics.jsonl");
  const std::string lines((std::istreambuf_iterator<char>(metrics)), {});
  EXPECT_THAT(lines, HasSubstr("\"event\":\"accelerate\""));
  Config forced = foreign_config(2, 5);
  forced.model.accelerate = Accelerate::on;
  EXPECT_THAT(train(forced, std::make_shared<ForeignNetImpl>()),
              HasSubstr("as model.accelerate says: loss and gradients"));
}

TEST_F(AcceleratedRun, TrainsAsLibtorchDoes) {
  const auto without_dropout = [] { return std::make_shared<ForeignNetImpl>(0.0); };
  const SharedNet expected = without_dropout();
  train_as_written(expected);
  for (const std::int64_t micro : {1, 5, 12}) {
    const SharedNet net = without_dropout();
    EXPECT_THAT(train(foreign_config(5, micro), net), HasSubstr("accrue does 2 products"));
    EXPECT_LT(largest_difference(net, expected), 1e-12) << micro;
  }
}

TEST_F(AcceleratedRun, DropoutInsideTheModuleIsTheSameForAnySplit) {
  const auto trained = [&](std::int64_t micro, Accelerate accelerate) {
    Config c = foreign_config(5, micro);
    c.model.accelerate = accelerate;
    const SharedNet net = std::make_shared<ForeignNetImpl>();
    train(c, net);
    return net;
  };
  const SharedNet whole = trained(12, Accelerate::automatic);
  for (const std::int64_t micro : {1, 5})
    EXPECT_LT(largest_difference(trained(micro, Accelerate::automatic), whole), 1e-12) << micro;
  EXPECT_GT(largest_difference(trained(5, Accelerate::off), trained(12, Accelerate::off)), 1e-3)
      << "libtorch's masks depend on the split";
}

TEST_F(AcceleratedRun, FallsBackWhereTheCheckDoesNotAgreeAndNamesIt) {
  const SharedNet expected = std::make_shared<FaultyNetImpl>(),
                  net = std::make_shared<FaultyNetImpl>();
  train_as_written(expected);
  EXPECT_THAT(
      train(foreign_config(5, 5), net),
      HasSubstr("the model's operations are libtorch's: on the first 3 samples the gradient of "
                "first.weight differs by 0.001 of itself"));
  EXPECT_EQ(largest_difference(net, expected), 0);
  Config forced = foreign_config(5, 5);
  forced.model.accelerate = Accelerate::on;
  const SharedNet wrong = std::make_shared<FaultyNetImpl>();
  EXPECT_THAT(train(forced, wrong), HasSubstr("although on the first 3 samples the gradient of"));
  EXPECT_GT(largest_difference(wrong, expected), 1e-6);
}

TEST_F(AcceleratedRun, TellsThatAModelDoesNotRepeatItself) {
  EXPECT_THAT(train(foreign_config(2, 5), std::make_shared<DriftingNetImpl>()),
              HasSubstr("the model's operations are libtorch's: two passes of libtorch's over the "
                        "first 3 samples are not alike: the loss differs"));
}

TEST_F(AcceleratedRun, LeavesTheModelAsItWas) {
  const auto network = [] {
    at::manual_seed(3);
    return torch::nn::Sequential(torch::nn::Linear(testing::foreign_inputs, 4),
                                 torch::nn::BatchNorm1d(4), torch::nn::Linear(4, 3));
  };
  std::vector<torch::nn::Sequential> trained;
  for (const Accelerate accelerate : {Accelerate::automatic, Accelerate::off}) {
    Config c = foreign_config(2, 6);
    std::filesystem::remove_all(c.run.out);
    c.model.accelerate = accelerate;
    c.model.batchnorm = models::BatchNormPolicy::micro;
    torch::nn::Sequential net = network();
    Trainer(
        c, net,
        [](torch::nn::Sequential& model, const batch::MicroBatch& micro) {
          return Loss{.sum = at::cross_entropy_loss(model->forward(micro.inputs), micro.targets, {},
                                                    at::Reduction::Sum),
                      .weight = static_cast<double>(micro.targets.size(0))};
        },
        testing::foreign_data())
        .run();
    trained.push_back(net);
  }
  for (const auto& buffer : trained[0]->named_buffers())
    EXPECT_LT(
        (buffer.value() - trained[1]->named_buffers()[buffer.key()]).abs().max().item<double>(),
        1e-12)
        << buffer.key();
}

TEST_F(AcceleratedRun, GoesOnAsTheCheckpointSays) {
  const SharedNet straight = std::make_shared<ForeignNetImpl>(),
                  resumed = std::make_shared<ForeignNetImpl>();
  train(foreign_config(6, 5), straight);
  Config c = foreign_config(3, 5, "broken");
  train(c, std::make_shared<ForeignNetImpl>());
  c.run.steps = 6;
  EXPECT_THAT(train(c, resumed, {.resume = true}),
              HasSubstr("accrue does the model's operations, as the checkpoint says"));
  EXPECT_EQ(largest_difference(resumed, straight), 0);

  Config off = foreign_config(3, 5, "off");
  off.model.accelerate = Accelerate::off;
  train(off, std::make_shared<ForeignNetImpl>());
  Config changed = off;
  changed.run.steps = 6;
  changed.model.accelerate = Accelerate::on;
  EXPECT_THROW(train(changed, std::make_shared<ForeignNetImpl>(), {.resume = true}), Error);
}

TEST_F(AcceleratedRun, ADecisionIsNotMadeAnewByAResumption) {
  Config c = foreign_config(3, 5);
  train(c, std::make_shared<ForeignNetImpl>());
  c.run.steps = 4;
  EXPECT_THAT(train(c, std::make_shared<FaultyNetImpl>(), {.resume = true}),
              HasSubstr("accrue does the model's operations, as the checkpoint says"))
      << "a check would not agree";
}

TEST(AccelerationOfACheckpoint, IsReadBackOrUnknown) {
  TrainState state;
  state.micro_batches = {.planned = 4, .micro_batch = 4};
  EXPECT_FALSE(train_state_from_json(to_json(state), "resume").accelerate.has_value());
  for (const bool on : {false, true}) {
    state.accelerate = on;
    EXPECT_EQ(train_state_from_json(to_json(state), "resume").accelerate, on);
  }
}

struct InnerImpl : torch::nn::Module {
  InnerImpl()
      : fc(register_module("fc", torch::nn::Linear(8, 8))),
        drop(register_module("drop", torch::nn::Dropout(0.3))) {}
  at::Tensor forward(const at::Tensor& x) { return drop(fc(x)); }
  torch::nn::Linear fc;
  torch::nn::Dropout drop;
};
TORCH_MODULE(Inner);

TEST_F(AcceleratedRun, RecomputesToTheSameBits) {
  const auto trained = [&](Recompute recompute) {
    at::manual_seed(3);
    torch::nn::Sequential net;
    net->push_back(torch::nn::Linear(testing::foreign_inputs, 8));
    net->push_back(torch::nn::BatchNorm1d(8));
    net->push_back(Inner());
    net->push_back(torch::nn::BatchNorm1d(8));
    net->push_back(torch::nn::Linear(8, testing::foreign_classes));
    Config c = foreign_config(3, 6);
    std::filesystem::remove_all(c.run.out);
    c.precision.compute = models::Compute::fp32;
    c.model.batchnorm = models::BatchNormPolicy::micro;
    c.memory.recompute = recompute;
    const auto loss = [](const at::Tensor& logits, const batch::MicroBatch& micro) {
      return Loss{.sum = at::cross_entropy_loss(logits, micro.targets, {}, at::Reduction::Sum),
                  .weight = static_cast<double>(micro.targets.size(0))};
    };
    Trainer trainer(c, models::from_sequential(net, loss, "net"), testing::foreign_data());
    const auto recorder = std::make_shared<testing::Recorder>();
    trainer.add_observer(recorder);
    trainer.run();
    EXPECT_TRUE(std::ranges::any_of(recorder->events, [](const Event& event) {
      return event.name == "accelerate" && event.reason.starts_with("accrue does");
    }));
    return net->parameters();
  };
  const std::vector<at::Tensor> kept = trained(Recompute::none), again = trained(Recompute::full);
  for (std::size_t i = 0; i < kept.size(); ++i) EXPECT_TRUE(at::equal(kept[i], again[i])) << i;
}

}  // namespace
}  // namespace accrue::train
