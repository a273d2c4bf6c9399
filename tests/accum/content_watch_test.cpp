// Changes to an Accumulator's open window that no version counter shows: libtorch's SGD and
// clipping write through data().
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <functional>

#include "accrue/accum/accumulator.h"
#include "accum/problem.h"
#include "support/tolerance.h"

namespace accrue {
namespace {

namespace nn = torch::nn;
using ::testing::AllOf;
using testing::error_of;
using ::testing::HasSubstr;

nn::Sequential watched_model() {
  torch::manual_seed(1);
  return nn::Sequential(nn::Linear(4, 300), nn::Tanh(), nn::Linear(300, 1));
}

Loss watched_loss(nn::Sequential& model, const at::Tensor& x) {
  const at::Tensor error = model->forward(x) - x.sum(1, true);
  return {error.square().sum(), static_cast<double>(error.size(0))};
}

at::Tensor watched_rows() {
  torch::manual_seed(2);
  return torch::randn({4, 4});
}

using Meddle = std::function<void(nn::Sequential&)>;

/// The message that a call throws; empty if it throws nothing.
std::string said_by(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

/// The next call's message when `meddle` came between a window's two micro-batches, or between the
/// last of them and step(); empty if there is none.
std::string said_after(const Meddle& meddle, bool before_step = false) {
  nn::Sequential model = watched_model();
  const at::Tensor x = watched_rows();
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  Accumulator accumulator(model);
  accumulator.backward(watched_loss(model, x.slice(0, 0, 2)));
  std::string said;
  const auto call = [&](const std::function<void()>& next) { said += said_by(next); };
  if (!before_step) meddle(model);
  call([&] { accumulator.backward(watched_loss(model, x.slice(0, 2, 4))); });
  if (before_step) meddle(model);
  call([&] {
    const bool stepped = accumulator.step(optimizer).stepped;
    EXPECT_EQ(stepped, said.find("this window is lost") == std::string::npos);
  });
  return said;
}

const auto kSaysStep =
    AllOf(HasSubstr("a changed parameter, as by step()"), HasSubstr("this window is lost"));
const auto kSaysWritten =
    AllOf(HasSubstr("a gradient written in place"), HasSubstr("this window is lost"));

struct Meddling {
  const char* name;
  Meddle meddle;
  ::testing::Matcher<std::string> says;
};

const std::vector<Meddling>& meddlings() {
  using torch::optim::SGD;
  using torch::optim::SGDOptions;
  static const std::vector<Meddling> all{
      {"SGD", [](auto& m) { SGD(m->parameters(), 1e-3).step(); }, kSaysStep},
      {"SGD with momentum and decay",
       [](auto& m) {
         SGD(m->parameters(), SGDOptions(1e-3).momentum(0.9).weight_decay(0.1)).step();
       },
       kSaysStep},
      {"SGD of one layer",
       [](auto& m) { SGD(m[2]->template as<nn::Linear>()->parameters(), 1e-3).step(); }, kSaysStep},
      {"Adam", [](auto& m) { torch::optim::Adam(m->parameters(), 1e-3).step(); }, kSaysStep},
      {"LBFGS",
       [](auto& m) {
         torch::optim::LBFGS(m->parameters(), torch::optim::LBFGSOptions(1e-3).max_iter(1))
             .step([] { return at::ones({}); });
       },
       kSaysStep},
      {"data().mul_()",
       [](auto& m) {
         for (const at::Tensor& p : m->parameters()) p.data().mul_(0.999);
       },
       kSaysStep},
      {"vector_to_parameters",
       [](auto& m) {
         const auto flat = nn::utils::parameters_to_vector(m->parameters());
         nn::utils::vector_to_parameters(flat * 0.999, m->parameters());
       },
       kSaysStep},
      {"clip_grad_norm_", [](auto& m) { nn::utils::clip_grad_norm_(m->parameters(), 0.01); },
       kSaysWritten},
      {"clip_grad_value_", [](auto& m) { nn::utils::clip_grad_value_(m->parameters(), 0.01); },
       kSaysWritten},
      {"grad().data().zero_()",
       [](auto& m) {
         for (const at::Tensor& p : m->parameters()) p.grad().data().zero_();
       },
       kSaysWritten},
      {"zero_grad(false)", [](auto& m) { m->zero_grad(false); }, kSaysWritten},
      {"zero_grad()", [](auto& m) { m->zero_grad(); }, HasSubstr("the window goes on")},
      {"plain backward", [](auto& m) { watched_loss(m, watched_rows()).sum.backward(); },
       AllOf(HasSubstr("a plain backward()"), HasSubstr("added to"),
             HasSubstr("this window is lost"), HasSubstr("Accumulator::backward"))}};
  return all;
}

TEST(ContentWatch, RefusesByNameWhatOthersDoBetweenMicroBatches) {
  for (const Meddling& meddling : meddlings())
    EXPECT_THAT(said_after(meddling.meddle), meddling.says) << meddling.name;
}

TEST(ContentWatch, RefusesByNameWhatOthersDoBeforeStep) {
  for (const Meddling& meddling : meddlings())
    EXPECT_THAT(said_after(meddling.meddle, /*before_step=*/true), meddling.says) << meddling.name;
}

TEST(ContentWatch, SaysNothingOfWhoOnlyReads) {
  const auto reads = [](nn::Sequential& m) {
    const torch::NoGradGuard no_grad;
    for (const at::Tensor& p : m->parameters()) {
      p.data().norm();
      p.grad().norm();
      p.data().mul_(1.0);
    }
    m->eval();
    m->forward(watched_rows());
    m->train();
    torch::autograd::grad({[&] {
                            const at::AutoGradMode with_graph(true);
                            return watched_loss(m, watched_rows()).sum;
                          }()},
                          m->parameters());
  };
  EXPECT_EQ(said_after(reads), "");
  EXPECT_EQ(said_after(reads, true), "");
}

/// A loop that steps by the plain optimizer, window after window.
TEST(ContentWatch, RefusesALoopThatStepsByThePlainOptimizer) {
  nn::Sequential model = watched_model();
  torch::optim::SGD optimizer(model->parameters(), 1e-3);
  Accumulator accumulator(model, {.micro_batches = 2});
  const auto loop = [&] {
    for (int i = 0; i < 3; ++i) {
      accumulator.backward(watched_loss(model, watched_rows()));
      if (accumulator.full()) optimizer.step();
    }
  };
  EXPECT_THAT(error_of(loop), kSaysStep);
}

/// The guarantee is only useful if correct windows are left alone.
TEST(ContentWatch, LeavesRightWindowsAlone) {
  nn::Sequential model = watched_model(), plain = watched_model();
  torch::optim::SGD optimizer(model->parameters(), 0.05), reference(plain->parameters(), 0.05);
  Accumulator accumulator(model, {.clip_norm = 0.5});
  const at::Tensor x = watched_rows();
  for (int window = 0; window < 4; ++window) {
    for (int i = 0; i < 4; ++i) accumulator.backward(watched_loss(model, x.slice(0, i, i + 1)));
    EXPECT_TRUE(accumulator.step(optimizer).stepped);
    optimizer.zero_grad();
    reference.zero_grad();
    const Loss whole = watched_loss(plain, x);
    (whole.sum / whole.weight).backward();
    nn::utils::clip_grad_norm_(plain->parameters(), 0.5);
    reference.step();
  }
  for (std::size_t i = 0; i < plain->parameters().size(); ++i)
    EXPECT_TRUE(testing::within(model->parameters()[i], plain->parameters()[i], 1e-5));
}

/// For an embedding most watched_rows have no gradient, and a step changes only a few elements.
TEST(ContentWatch, SeesAStepOfAnEmbeddingAlone) {
  torch::manual_seed(3);
  for (const std::int64_t word : {0, 1234, 4999}) {
    nn::Embedding embedding(5000, 16);
    torch::optim::SGD optimizer(embedding->parameters(), 0.1);
    Accumulator accumulator(embedding);
    const at::Tensor words = at::tensor({word});
    const auto loss = [&] { return Loss{embedding->forward(words).square().sum(), 1}; };
    accumulator.backward(loss());
    optimizer.step();
    EXPECT_THAT(error_of([&] { accumulator.backward(loss()); }), kSaysStep) << "word " << word;
  }
}

/// For units that are off no sum changes: those that do are found again, window by window.
TEST(ContentWatch, FollowsSumsThatMoveElsewhere) {
  at::Tensor weight = torch::ones({10'000}).requires_grad_();
  Accumulator accumulator({weight});
  const auto loss = [&](std::int64_t at) {
    return Loss{weight.slice(0, at, at + 100).square().sum(), 1};
  };
  for (const std::int64_t at : {0, 5000, 9900}) {
    accumulator.backward(loss(at));
    {
      const torch::NoGradGuard no_grad;
      weight.data().sub_(weight.grad(), 0.1);
    }
    EXPECT_THAT(error_of([&] { accumulator.backward(loss(at)); }), kSaysStep) << at;
    accumulator.discard();
  }
}

TEST(ContentWatch, SeesStepsOfAnyDtypeAndLayout) {
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat, at::kBFloat16}) {
    torch::manual_seed(4);
    at::Tensor weight =
        torch::randn({6, 5, 3, 3}).to(dtype).contiguous(at::MemoryFormat::ChannelsLast);
    weight.requires_grad_();
    Accumulator accumulator({weight});
    const auto loss = [&] { return Loss{weight.square().sum().to(at::kDouble), 1}; };
    accumulator.backward(loss());
    weight.data().mul_(0.5);
    EXPECT_THAT(error_of([&] { accumulator.backward(loss()); }), kSaysStep);
    accumulator.discard();
    for (int i = 0; i < 3; ++i) accumulator.backward(loss());
    EXPECT_TRUE(accumulator.step([](accum::MeanGradient&&) {}).stepped);
  }
}

/// The audit handles a gradient that is not finite; it is not a change.
TEST(ContentWatch, TakesNotANumberForWhatItIs) {
  at::Tensor weight = torch::zeros({20}).requires_grad_();
  Accumulator accumulator({weight});
  accumulator.backward({at::sqrt(weight).sum() * 0, 1});
  accumulator.backward({weight.sum(), 1});
  EXPECT_FALSE(accumulator.step([](accum::MeanGradient&&) {}).stepped);
}

TEST(ContentWatch, NamesAPlainBackwardOfAParameterThatHasNoSumYet) {
  at::Tensor used = torch::ones({3}).requires_grad_(), later = torch::ones({3}).requires_grad_();
  Accumulator accumulator(NamedParameters{{"used", used}, {"later", later}});
  accumulator.backward({used.sum(), 1});
  later.square().sum().backward();
  EXPECT_THAT(error_of([&] {
                accumulator.backward({later.sum(), 1});
              }),
              AllOf(HasSubstr("plain backward()"), HasSubstr("'later'"), HasSubstr("are intact")));
  accumulator.backward({later.sum(), 1});
  EXPECT_TRUE(accumulator.step([](accum::MeanGradient&&) {}).stepped);
  EXPECT_TRUE(at::equal(later.grad(), at::full({3}, 0.5)));
}

TEST(ContentWatch, NamesAPlainBackwardThatKeepsAGraph) {
  at::Tensor weight = torch::ones({3}).requires_grad_();
  Accumulator accumulator({weight});
  accumulator.backward({weight.square().sum(), 1});
  weight.square().sum().backward({}, /*retain_graph=*/true, /*create_graph=*/true);
  EXPECT_THAT(error_of([&] {
                accumulator.backward({weight.square().sum(), 1});
              }),
              AllOf(HasSubstr("plain backward()"), HasSubstr("are intact")));
}

/// If half of the elements are unchanged, a few of the others are enough.
TEST(ContentWatch, SeesClippingThatCutsTheLargestAlone) {
  at::Tensor weight = torch::zeros({60}).requires_grad_();
  at::Tensor factors = torch::full({60}, 0.1);
  factors[37] = 5;
  Accumulator accumulator({weight});
  accumulator.backward({(weight * factors).sum(), 1});
  nn::utils::clip_grad_value_({weight}, 1.0);
  EXPECT_THAT(error_of([&] { accumulator.step([](accum::MeanGradient&&) {}); }), kSaysWritten);
}

/// A model whose forward pass keeps the norms of its weight's rows at 1, and an embedding with
/// max_norm, whose weight libtorch writes to.
struct OwnWriter : nn::Module {
  OwnWriter() {
    torch::manual_seed(1);
    constrained = register_parameter("constrained", torch::randn({300, 4}));
    embedding =
        register_module("embedding", nn::Embedding(nn::EmbeddingOptions(50, 4).max_norm(1)));
  }
  at::Tensor forward(const at::Tensor& ids) {
    const at::Tensor data = constrained.data();
    data.div_(data.norm(2, 1, true) + 0.01);  // so that each pass writes something
    return at::linear(embedding(ids), constrained).square();
  }
  at::Tensor constrained;
  nn::Embedding embedding{nullptr};
};

/// The messages at the second of two micro-batches, and at step().
std::string said_of_own_writer(AccumulatorOptions options,
                               const std::function<void(OwnWriter&)>& meddle) {
  auto model = std::make_shared<OwnWriter>();
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  Accumulator accumulator(model, std::move(options));
  std::string said;
  const auto call = [&](const std::function<void()>& next) { said += said_by(next); };
  for (int i = 0; i < 2; ++i) {
    const at::Tensor ids = torch::arange(25 * i, 25 * i + 25);
    call([&] { accumulator.backward({model->forward(ids).sum(), 25}); });
    meddle(*model);
  }
  call([&] {
    const at::Tensor before = model->constrained.detach().clone();
    EXPECT_EQ(accumulator.step(optimizer).stepped, said.empty());
    EXPECT_EQ(at::equal(model->constrained, before), !said.empty());
  });
  return said;
}

TEST(ContentWatch, LetsAModelWriteItsOwnWeightsIfAsked) {
  const auto leave = [](OwnWriter&) {};
  EXPECT_THAT(said_of_own_writer({}, leave),
              AllOf(HasSubstr("a changed parameter"), HasSubstr("watch_parameters = false")));
  EXPECT_EQ(said_of_own_writer({.watch_parameters = false}, leave), "");
  EXPECT_THAT(said_of_own_writer(
                  {.watch_parameters = false},
                  [](OwnWriter& model) { nn::utils::clip_grad_value_(model.parameters(), 1e-6); }),
              kSaysWritten)
      << "sums are compared all the same";
}

}  // namespace
}  // namespace accrue
