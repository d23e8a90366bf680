from mutants import promise

TESTS = "tests/mpi/mpi"
mutant = promise("a communicator of MPI is a duplicate that returns its errors, and no process waits")
mutant("mpi-without-duplicate", "ranks/mpi.hpp", TESTS, 'check_status(MPI_Comm_dup(communicator, &ranks_), "MPI_Comm_dup");', "ranks_ = communicator;")
mutant("mpi-duplicate-never-freed", "ranks/mpi.hpp", TESTS, "if (!over) MPI_Comm_free(&ranks_);", "")
mutant("mpi-without-error-handler", "ranks/mpi.hpp", TESTS, "MPI_Comm_set_errhandler(ranks_, MPI_ERRORS_RETURN);", "")
mutant("mpi-unchecked-before-init", "ranks/mpi.hpp", TESTS, "if (!running) detail", "if (false) detail")
mutant("mpi-calls-unchecked", "ranks/mpi.hpp", TESTS, "if (status == MPI_SUCCESS) return;", "if (status >= MPI_SUCCESS) return;")
mutant("mpi-counts-unchecked", "ranks/mpi.hpp", TESTS, "if (frame(r)[0] != frame(0)[0])", "if (false)")
mutant("mpi-rank-without-memory-unnamed", "ranks/mpi.hpp", TESTS, "if (frame(r)[0] == no_count)", "if (false)")
mutant("mpi-always-two-messages", "ranks/mpi.hpp", TESTS, "if (!rest_.empty()) gather", "gather")
