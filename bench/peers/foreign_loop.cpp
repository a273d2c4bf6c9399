// Trains a plain torch::nn model (gpt2, resnet50, lstm) in one of these loops, each of which clips
// the gradient's norm and steps after --count=K micro-batches:
//
//   foreign_loop JOB plain         loss / K, backward, step, as on libtorch alone
//   foreign_loop JOB accumulator   the same with an Accumulator
//   foreign_loop JOB accelerated   that with accrue::accelerate()
//   foreign_loop JOB in-turn       the first two in turn, each with a model of its own
//
// --allocator=1 installs accrue's caching allocator first. Prints one JSON object: tokens or images
// per second of each step after a warm-up, and the losses of all; of `in-turn` the seconds and
// losses of each loop's steps. All loops of a job see the same micro-batches. None of the models
// drops anything, so that nobody tells accrue::accelerate() whose rows they are.
#include <optional>

#include "accrue/accum/accumulator.h"
#include "accrue/kernels/accelerate.h"
#include "accrue/memory/caching_allocator.h"
#include "plain_jobs.h"

namespace {

constexpr double clip_norm = 1.0;

double plain_step(plain::Job& job, int64_t count) {
  job.optimizer->zero_grad();
  double mean = 0;
  for (int64_t k = 0; k < count; ++k) {
    const auto loss = job.loss_sum() / static_cast<double>(job.terms);
    (loss / static_cast<double>(count)).backward();
    mean += loss.item<double>() / static_cast<double>(count);
  }
  torch::nn::utils::clip_grad_norm_(job.module->parameters(), clip_norm);
  job.optimizer->step();
  return mean;
}

double accumulated_step(plain::Job& job, accrue::Accumulator& acc, int64_t count) {
  for (int64_t k = 0; k < count; ++k)
    acc.backward(accrue::Loss{job.loss_sum(), static_cast<double>(job.terms)});
  return acc.step(*job.optimizer).loss.value();
}

template <class Step>
double seconds_of(const Step& step) {
  const auto start = std::chrono::steady_clock::now();
  step();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// The loop that comes first in a pair comes second in the next one.
void run_in_turn(const std::string& name, plain::Values v) {
  plain::Job plain_job = plain::make_job(name, v), job = plain::make_job(name, v);
  accrue::Accumulator acc(job.module, {.clip_norm = clip_norm});
  std::vector<double> plain_losses, losses;
  const auto plain_loop = [&] { plain_losses.push_back(plain_step(plain_job, v["count"])); };
  const auto accumulating_loop = [&] { losses.push_back(accumulated_step(job, acc, v["count"])); };
  plain_loop();
  accumulating_loop();
  std::vector<double> plainly, accumulating;
  for (int64_t i = 0; i < v["steps"]; ++i) {
    if (i % 2 == 0) plainly.push_back(seconds_of(plain_loop));
    accumulating.push_back(seconds_of(accumulating_loop));
    if (i % 2 == 1) plainly.push_back(seconds_of(plain_loop));
  }
  std::printf("{");
  plain::print_list("plain", plainly);
  std::printf(", ");
  plain::print_list("accumulator", accumulating);
  std::printf(", ");
  plain::print_list("plain_losses", plain_losses);
  std::printf(", ");
  plain::print_list("losses", losses);
  std::printf("}\n");
}

void run_alone(const std::string& name, const std::string& loop, plain::Values v) {
  plain::Job job = plain::make_job(name, v);
  std::optional<accrue::Accelerated> accelerated;
  if (loop == "accelerated") accelerated.emplace(accrue::detail::named_parameters_of(job.module));
  std::optional<accrue::Accumulator> acc;
  if (loop != "plain") acc.emplace(job.module, accrue::AccumulatorOptions{.clip_norm = clip_norm});
  const int64_t count = v["count"];
  plain::measure(v, job.units * count,
                 [&] { return acc ? accumulated_step(job, *acc, count) : plain_step(job, count); });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "error: expected foreign_loop JOB LOOP [--key=number...]\n");
    return 2;
  }
  const std::string job = argv[1], loop = argv[2];
  plain::Values v =
      plain::parse(argc - 2, argv + 2, {{"allocator", 0}, {"image", 224}, {"classes", 1000}});
  if (v["allocator"] != 0) accrue::memory::install_caching_allocator();
  at::set_num_threads(static_cast<int>(v["threads"]));
  if (loop == "in-turn")
    run_in_turn(job, v);
  else if (loop == "plain" || loop == "accumulator" || loop == "accelerated")
    run_alone(job, loop, v);
  else
    return std::fprintf(stderr, "error: no loop '%s'\n", loop.c_str()), 2;
}
