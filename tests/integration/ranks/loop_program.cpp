// One rank of a user's loop: `loop_program FORM SEED FAULT`, with a launcher's variables. It prints
// its final parameters and its reports.
#include <ATen/record_function.h>
#include <torch/torch.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <iostream>
#include <limits>
#include <map>
#include <string>

#include "accrue/accrue.h"
#include "accrue/distributed/group.h"
#include "accum/runs_out.h"
#include "loop_problem.h"

namespace accrue::testing {
namespace {

using namespace std::chrono_literals;

/// The window and the rank of the fault.
constexpr std::int64_t kBadWindow = 1, kBadRank = 1;

class Loop {
 public:
  Loop(std::uint64_t seed, std::string fault)
      : group_(distributed::join({.timeout = 60s})),
        seed_(seed),
        fault_(std::move(fault)),
        problem_(fault_ == "other seed" && rank() == kBadRank ? 8 : 7,
                 compresses() ? at::kFloat : at::kDouble) {}

  bool compresses() const { return fault_ == "int8"; }
  std::int64_t rank() const { return group_ ? group_->rank() : 0; }
  std::int64_t world() const { return group_ ? group_->world() : 1; }
  const std::shared_ptr<distributed::Group>& group() const { return group_; }

  AccumulatorOptions options() {
    AccumulatorOptions options{.clip_norm = LoopProblem::kClip, .group = group_};
    options.sharing.overlap = fault_ != "end";
    if (compresses()) options.sharing.compress = accum::Compression::int8;
    if (fault_ == "fixed") options.accumulate = accum::Accumulation::fixed;
    options.on_event = [](const Event& event) {
      std::cout << "event " << event.name << ' ' << event.reason << '\n';
    };
    options.replay = [this](const MicroRef& micro) { return of(micro); };
    return options;
  }

  Loss of(const MicroRef& micro) {
    if (micro.sample_ids.front() < 0) return of_infinite_gradient();
    return loss_of(micro.sample_ids.front(), micro.sample_ids.back() + 1);
  }

  /// In the faulty window memory may suffice for two samples only.
  Loss loss_of(std::int64_t begin, std::int64_t end) {
    const bool runs_out = fault_ == "out of memory" && goes_wrong() && end - begin > 2;
    if (!runs_out) return problem_.loss(window_, begin, end);
    const at::Tensor zero = RunsOut::apply(problem_.model->parameters().front()).sum() * 0;
    Loss loss = problem_.loss(window_, begin, end);
    loss.sum = loss.sum + zero;
    return loss;
  }

  std::vector<LoopMicro> mine(bool in_order = false) const {
    std::vector<LoopMicro> mine;
    for (const LoopMicro& micro : random_split(seed_, window_, world(), in_order))
      if (micro.rank == rank()) mine.push_back(micro);
    return mine;
  }

  bool goes_wrong() const { return window_ == kBadWindow && (world() == 1 || rank() == kBadRank); }

  /// The loss of a micro-batch after the fault's change.
  Loss faulty(Loss loss, const LoopMicro& micro) {
    if (fault_ == "mean") {
      loss.sum = loss.sum / static_cast<double>(micro.end - micro.begin);
      return loss;
    }
    if (!goes_wrong()) return loss;
    if (fault_ == "forgets") loss.sum = loss.sum * 0;
    if (fault_ == "throws") throw std::runtime_error("the loader's disk is gone");
    if (fault_ == "killed") std::raise(SIGKILL);
    return loss;
  }

  /// Trains on the micro-batches that a random split gives this rank.
  void accumulate() {
    torch::optim::SGD optimizer = problem_.optimizer();
    Accumulator acc(problem_.model, options());
    for (window_ = 0; window_ < LoopProblem::kWindows; ++window_) {
      add_what_is_not_finite(acc);
      const std::vector<LoopMicro> micros = mine();
      for (std::size_t i = 0; i < micros.size(); ++i) {
        Loss loss = faulty(loss_of(micros[i].begin, micros[i].end), micros[i]);
        if (i + 1 == micros.size()) acc.next_is_last();
        acc.backward(std::move(loss), Samples{micros[i].end - micros[i].begin}, ids(micros[i]));
      }
      print(acc.step(optimizer));
      if (window_ == 0) print_parameters("first", problem_.model->parameters());
    }
  }

  /// Adds a micro-batch whose loss or gradient is not finite.
  void add_what_is_not_finite(Accumulator& acc) {
    if (!goes_wrong()) return;
    const double nan = std::numeric_limits<double>::quiet_NaN();
    if (fault_ == "nan loss")
      acc.backward({.sum = problem_.model->parameters().front().sum() * nan, .weight = 3});
    if (fault_ == "nan gradient") acc.backward(of_infinite_gradient(), {}, {-1});
  }

  Loss of_infinite_gradient() const {
    const at::Tensor weight = problem_.model->parameters().front();
    return {.sum = (weight - weight.detach()).sqrt().sum(), .weight = 3};
  }

  static std::vector<std::int64_t> ids(const LoopMicro& micro) {
    std::vector<std::int64_t> ids;
    for (std::int64_t id = micro.begin; id < micro.end; ++id) ids.push_back(id);
    return ids;
  }

  /// A loop over a loader of the rank itself, by full() and finish(): rank r has every world-th
  /// sample of all windows, starting from sample r.
  void stream() {
    torch::optim::SGD optimizer = problem_.optimizer();
    AccumulatorOptions with_batch = options();
    with_batch.batch = Samples{12};
    Accumulator acc(problem_.model, with_batch);
    std::int64_t last = LoopProblem::kWindows * LoopProblem::kSamples;
    if (fault_ == "short" && rank() == kBadRank) last /= 3;
    for (std::int64_t sample = rank(); sample < last; sample += world()) {
      window_ = sample / LoopProblem::kSamples;
      const std::int64_t begin = sample % LoopProblem::kSamples;
      acc.backward(problem_.loss(window_, begin, begin + 1), Samples{1});
      if (acc.full()) print(acc.step(optimizer));
    }
    print(acc.finish(optimizer));
  }

  /// Two losses with separate denominators.
  void losses() {
    torch::optim::SGD optimizer = problem_.optimizer();
    AccumulatorOptions two = options();
    two.replay = nullptr;
    two.replay_losses = [this](const MicroRef& micro) {
      return problem_.losses(window_, micro.sample_ids.front(), micro.sample_ids.back() + 1);
    };
    Accumulator acc(problem_.model, two);
    for (window_ = 0; window_ < LoopProblem::kWindows; ++window_) {
      const std::vector<LoopMicro> micros = mine();
      std::vector<double> totals{0, 0};
      for (const LoopMicro& micro : micros) {
        const auto some = [&](const at::Tensor& all) {
          return all[window_].slice(0, micro.begin, micro.end).sum().item<double>();
        };
        totals[0] += some(problem_.weights);
        totals[1] += some(problem_.marks);
      }
      const bool adds_bad = goes_wrong() && fault_ == "nan loss";
      if (adds_bad) totals = {totals[0] + 3, totals[1] + 2};
      acc.expect({totals, {1.0, LoopProblem::kBoxes}});
      for (const LoopMicro& micro : micros) {
        std::vector<Loss> both = problem_.losses(window_, micro.begin, micro.end);
        if (fault_ == "forgets one" && goes_wrong())
          both[1] = {.sum = at::zeros({}, at::kDouble), .weight = 0};
        if (fault_ == "gives one" && goes_wrong()) both.pop_back();
        acc.backward(both, Samples{micro.end - micro.begin}, ids(micro));
      }
      if (adds_bad) {
        const at::Tensor bad =
            problem_.model->parameters().front().sum() * std::numeric_limits<double>::quiet_NaN();
        acc.backward(std::vector<Loss>{{.sum = bad, .weight = 3}, {.sum = bad, .weight = 2}});
      }
      print(acc.step(optimizer));
    }
  }

  using Slice = std::vector<at::Tensor>;

  /// This rank's samples of the window: consecutive ones.
  Slice own_slice(const std::vector<at::Tensor>& all) const {
    const std::vector<LoopMicro> micros = mine(true);
    Slice slice;
    for (const at::Tensor& tensor : all)
      slice.push_back(micros.empty()
                          ? tensor[window_].slice(0, 0, 0)
                          : tensor[window_].slice(0, micros.front().begin, micros.back().end));
    return slice;
  }

  void step_by_step() {
    torch::optim::SGD optimizer = problem_.optimizer();
    const auto loss_fn = [&](torch::nn::Sequential& model, const Slice& slice) {
      if (goes_wrong() && fault_ == "throws") throw std::runtime_error("the loader's disk is gone");
      const at::Tensor error = model->forward(slice[0]) - slice[1];
      return Loss{.sum = (error.square() * slice[2]).sum(),
                  .weight = slice[2].sum().item<double>()};
    };
    Stepper stepper(problem_.model, optimizer,
                    {.clip_norm = LoopProblem::kClip, .micro_batch = 4, .group = group_});
    for (window_ = 0; window_ < LoopProblem::kWindows; ++window_)
      print(
          stepper.step(own_slice({problem_.inputs, problem_.targets, problem_.weights}), loss_fn));
  }

  /// Shares by speed, which the test's faults determine.
  void shares() {
    torch::optim::SGD optimizer = problem_.optimizer();
    AccumulatorOptions with_batch = options();
    with_batch.batch = Samples{LoopProblem::kSamples};
    Accumulator acc(problem_.model, with_batch);
    for (int step = 0; step < 12; ++step) {
      window_ = step % LoopProblem::kWindows;
      const accum::WindowShare share = acc.share();
      std::cout << "share " << share.begin << ' ' << share.end << '\n';
      for (std::int64_t sample = share.begin; sample < share.end; ++sample) {
        RECORD_USER_SCOPE("sample");
        acc.backward(problem_.loss(window_, sample, sample + 1), Samples{1});
      }
      print(acc.step(optimizer));
    }
  }

  /// Two models, each with a window, which are open at the same time.
  void two_windows() {
    LoopProblem other(9);
    torch::optim::SGD optimizer = problem_.optimizer(), others = other.optimizer();
    AccumulatorOptions plain{.clip_norm = LoopProblem::kClip, .group = group_};
    Accumulator acc(problem_.model, plain), acc_of_other(other.model, plain);
    for (window_ = 0; window_ < LoopProblem::kWindows; ++window_) {
      for (const LoopMicro& micro : mine()) {
        acc.next_is_last();
        acc_of_other.next_is_last();
        acc.backward(problem_.loss(window_, micro.begin, micro.end));
        acc_of_other.backward(other.loss(window_, micro.begin, micro.end));
        break;
      }
      acc_of_other.step(others);
      print(acc.step(optimizer));
    }
    print_parameters(other.model->parameters());
  }

  void coupled() {
    torch::manual_seed(7);
    Coupled model;
    torch::optim::SGD optimizer(model->parameters(), LoopProblem::kRate);
    for (window_ = 0; window_ < LoopProblem::kWindows; ++window_)
      print(coupled_step(
          model, optimizer, own_slice({problem_.inputs, problem_.inputs + 0.5}),
          [](Coupled& net, const Slice& slice) { return net->encode(slice); },
          [&](const std::vector<at::Tensor>& towers) { return model->loss(towers); },
          {.clip_norm = LoopProblem::kClip, .micro_batch = 4, .group = group_}));
    print_parameters(model->parameters());
  }

  static void print(const StepReport& report) {
    std::cout << "loss " << report.loss.value_or(0) << "\nweight " << report.weight << "\nstepped "
              << report.stepped << "\nworld " << report.world << "\nquarantined "
              << report.quarantined << "\nretries " << report.retries << '\n';
  }

  static void print_parameters(const std::vector<at::Tensor>& parameters) {
    print_parameters("parameters", parameters);
  }
  static void print_parameters(const char* name, const std::vector<at::Tensor>& parameters) {
    for (const at::Tensor& parameter : parameters) {
      const at::Tensor values = parameter.detach().contiguous().view({-1});
      std::cout << name;
      for (std::int64_t i = 0; i < values.numel(); ++i)
        std::cout << ' ' << values[i].item<double>();
      std::cout << '\n';
    }
  }
  void print_parameters() const { print_parameters(problem_.model->parameters()); }

 private:
  std::shared_ptr<distributed::Group> group_;
  std::uint64_t seed_;
  std::string fault_;
  LoopProblem problem_;
  std::int64_t window_ = 0;
};

int run(const std::string& form, std::uint64_t seed, const std::string& fault) {
  const std::map<std::string, std::function<void(Loop&)>> forms{
      {"accumulate", &Loop::accumulate}, {"stream", &Loop::stream}, {"losses", &Loop::losses},
      {"step", &Loop::step_by_step},     {"shares", &Loop::shares}, {"two", &Loop::two_windows},
      {"coupled", &Loop::coupled}};
  at::set_num_threads(1);
  std::cout.precision(std::numeric_limits<double>::max_digits10);
  try {
    Loop loop(seed, fault);
    distributed::run_together(loop.group().get(), [&] {
      forms.at(form)(loop);
      if (form != "coupled") loop.print_parameters();
    });
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << '\n';
    return 1;
  }
}

}  // namespace
}  // namespace accrue::testing

int main(int, char** words) {
  return accrue::testing::run(words[1], std::stoull(words[2]), words[3]);
}
