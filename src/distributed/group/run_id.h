#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace accrue::distributed {

/// The environment variable by which a run is named if its launcher has no name for it.
constexpr const char* kRunId = "ACCRUE_RUN_ID";

/// What Slurm says of a step, as its variables have it.
struct SlurmStep {
  std::string cluster, job, step;
};

/// Names of runs (Launch::run_id), the same on all ranks of one and others in any other.
/// `id` is torchrun's --rdzv-id, which is "none" unless somebody states it; empty if it is.
std::string run_id_of_torchrun(std::string_view id);
/// Of Open MPI's name of the job and of the key that it draws for it; empty if both are.
std::string run_id_of_mpirun(std::string_view job, std::string_view key);
std::string run_id_of_srun(const SlurmStep& step);

/// Ports that runs take if nobody states one, below those that the system gives to clients. The
/// steps of a job have different ones.
std::uint16_t port_of_srun(const SlurmStep& step);
/// Of what run_id_of_mpirun() returns. torchrun's default where that is empty.
std::uint16_t port_of_mpirun(std::string_view run_id);

}  // namespace accrue::distributed
