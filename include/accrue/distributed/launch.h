#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace accrue::distributed {

/// Environment variables by name.
using Environment = std::map<std::string, std::string, std::less<>>;

enum class Launcher {
  none,      ///< a single process
  torchrun,  ///< RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT; by torchrun or set by hand
  mpirun,    ///< OMPI_COMM_WORLD_*
  srun,      ///< SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_STEP_NODELIST
};

/// The place of this process among those that a launcher started, and the address of their store.
struct Launch {
  int rank = 0;
  int world = 1;
  int local_rank = 0;       ///< the number of this process on this machine
  int local_world = 1;      ///< torchrun's, which binds no process to cores; 1 for others
  std::string master_addr;  ///< of the store; empty with Launcher::none
  std::uint16_t master_port = 0;
  /// The launcher's agent already hosts the store (TORCHELASTIC_USE_AGENT_STORE): every rank
  /// connects to it. Otherwise rank 0 hosts it.
  bool agent_hosts_store = false;
  /// ACCRUE_STORE: the URL of an existing engine that holds the store, "etcd://HOST:PORT,...", in
  /// place of a host. `master_addr` and `master_port` are then one member's. Empty: none.
  std::string store;
  /// ACCRUE_RUN_TOKEN: the secret by which the ranks of a run recognise each other in the store;
  /// empty: none. It is never printed.
  std::string run_token;
  /// Distinguishes this run from others that reach the same store by mistake: ACCRUE_RUN_ID, or the
  /// launcher's name for the job and the step. Empty if neither exists, for example if RANK and the
  /// others are set by hand. It is not a secret.
  std::string run_id;
  /// The variables that define the rank, for people: "RANK=0 and WORLD_SIZE=2"; empty without a
  /// launcher.
  std::string stated_by;
  std::string interface;  ///< GLOO_SOCKET_IFNAME: the network interface; empty: by address
  Launcher how = Launcher::none;
};

/// Reads a launcher's variables. RANK and WORLD_SIZE take precedence over OMPI_*, and those over
/// SLURM_*, because torchrun may itself have been started by mpirun or srun. A process in an sbatch
/// script without srun (no SLURM_STEP_ID) is alone.
///
/// Ranks on a single machine meet at 127.0.0.1: under torchrun if LOCAL_WORLD_SIZE shows it, under
/// mpirun and srun if MASTER_ADDR is not set. Without MASTER_ADDR, srun on several machines uses
/// the first node of the step. Without MASTER_PORT the port is derived from srun's job and step, or
/// mpirun's job: two runs on one machine have different ports.
///
/// With ACCRUE_STORE no MASTER_ADDR and MASTER_PORT are needed, and those that are set are not
/// used.
///
/// Throws a usage Error that names the variables if some are missing, are not numbers in range, or
/// contradict each other, if MASTER_ADDR is neither a host name nor an address, if the run token
/// has fewer than 16 characters, if ACCRUE_STORE is no list of members, or if it is set for several
/// ranks that have no run_id.
Launch launch_of(const Environment& environment);

/// The variables of this process.
Environment this_environment();

/// The first name of a Slurm node list: "gpu03" for "gpu[03-05,9],cpu1".
std::string first_node(std::string_view node_list);

}  // namespace accrue::distributed
