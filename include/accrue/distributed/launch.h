#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace accrue::distributed {

/// Environment variables by name.
using Environment = std::map<std::string, std::string, std::less<>>;

enum class Launcher {
  none,      ///< one process by itself
  torchrun,  ///< RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT; by torchrun or set by hand
  mpirun,    ///< OMPI_COMM_WORLD_*
  srun,      ///< SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_STEP_NODELIST
};

/// This process's place among those that a launcher started, and where they meet.
struct Launch {
  int rank = 0;
  int world = 1;
  int local_rank = 0;       ///< this process's number on this machine
  int local_world = 1;      ///< torchrun's, which binds no process to cores; 1 for others
  std::string master_addr;  ///< of the store; empty with Launcher::none
  std::uint16_t master_port = 0;
  /// The launcher's agent hosts the store already (TORCHELASTIC_USE_AGENT_STORE): every rank
  /// connects to it. If it does not, rank 0 hosts it.
  bool agent_hosts_store = false;
  /// ACCRUE_RUN_TOKEN: the secret by which the ranks of a run know each other in the store; empty:
  /// none. It is shown to nobody.
  std::string run_token;
  /// What parts this run from others that come to the same store by mistake: ACCRUE_RUN_ID, or the
  /// launcher's name for the job and the step. Empty: nothing does, as where RANK and the others
  /// are set by hand. It is no secret.
  std::string run_id;
  /// What says which rank this is, for people: "RANK=0 and WORLD_SIZE=2"; empty: no
  /// launcher does.
  std::string stated_by;
  std::string interface;  ///< GLOO_SOCKET_IFNAME: the network interface; empty: by address
  Launcher how = Launcher::none;
};

/// Reads a launcher's variables. RANK and WORLD_SIZE go before OMPI_*, and those before SLURM_*,
/// because torchrun may itself have been started by mpirun or srun. Inside an sbatch script without
/// srun (no SLURM_STEP_ID) a process is alone.
///
/// Ranks that are all on one machine meet at 127.0.0.1: those of torchrun's agent where its
/// LOCAL_WORLD_SIZE says so, those of mpirun and srun where MASTER_ADDR is not set. Without it srun
/// on several machines meets at the first node of the step. Without MASTER_PORT the port is made of
/// what srun calls the job and the step, or mpirun its job: two runs on one machine have two ports.
///
/// Throws a usage Error that names the variables if some are missing, are no numbers in range, or
/// contradict each other, if MASTER_ADDR is neither a host name nor an address, and for a run token
/// of less than 16 characters.
Launch launch_of(const Environment& environment);

/// The variables of this process.
Environment this_environment();

/// The first name of a Slurm node list: "gpu[03-05,9],cpu1" begins with "gpu03".
std::string first_node(std::string_view node_list);

}  // namespace accrue::distributed
