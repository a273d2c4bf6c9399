#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace accrue::distributed {

/// The environment variable that names a run if its launcher has no name for it.
constexpr const char* kRunId = "ACCRUE_RUN_ID";

/// A step in Slurm, from its variables.
struct SlurmStep {
  std::string cluster, job, step;
};

/// Names of runs (Launch::run_id), the same on all ranks of one and different in any other. `id` is
/// torchrun's --rdzv-id, which is "none" unless it is stated; empty in that case.
std::string run_id_of_torchrun(std::string_view id);
/// From Open MPI's name of the job and the key that it draws for it; empty if both are.
std::string run_id_of_mpirun(std::string_view job, std::string_view key);
std::string run_id_of_srun(const SlurmStep& step);

/// Default ports of runs, below those that the system gives to clients. The steps of a job have
/// different ones.
std::uint16_t port_of_srun(const SlurmStep& step);
/// From the result of run_id_of_mpirun(); torchrun's default if that is empty.
std::uint16_t port_of_mpirun(std::string_view run_id);

}  // namespace accrue::distributed
