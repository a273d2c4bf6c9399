#include "distributed/group/launch/run_id.h"

#include <charconv>

#include "core/checksum.h"

namespace accrue::distributed {
namespace {

constexpr std::uint64_t kLowestPort = 15000, kPorts = 15000;
constexpr std::uint16_t kPortOfTorchrun = 29500;

/// It separates runs on one machine, and is not a protection.
std::uint64_t hash_of(std::string_view text) {
  const std::string digits = checksum_of(text);
  std::uint64_t hash = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), hash, 16);
  return hash;
}

/// Slurm's numbers; others are hashed.
std::uint64_t number_of(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? number : hash_of(text);
}

}  // namespace

std::string run_id_of_torchrun(std::string_view id) {
  return id.empty() || id == "none" ? "" : "torchrun-" + std::string(id);
}

std::string run_id_of_mpirun(std::string_view job, std::string_view key) {
  if (job.empty() && key.empty()) return "";
  return "mpirun-" + checksum_of(std::string(job) + ' ' + std::string(key));
}

std::string run_id_of_srun(const SlurmStep& step) {
  return "srun-" + (step.cluster.empty() ? "" : step.cluster + "-") + step.job + "-" + step.step;
}

std::uint16_t port_of_srun(const SlurmStep& step) {
  // A prime that does not divide the number of ports: close steps and jobs get different ones.
  constexpr std::uint64_t between_steps = 7919;
  const std::uint64_t place =
      number_of(step.job) % kPorts + number_of(step.step) % kPorts * between_steps;
  return static_cast<std::uint16_t>(kLowestPort + place % kPorts);
}

std::uint16_t port_of_mpirun(std::string_view run_id) {
  if (run_id.empty()) return kPortOfTorchrun;
  return static_cast<std::uint16_t>(kLowestPort + hash_of(run_id) % kPorts);
}

}  // namespace accrue::distributed
